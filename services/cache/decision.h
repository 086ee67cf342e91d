// Decide runs the policies of sequences on snapshots and returns which tokens or which blocks go.
// It is the part of a step that needs no lock. The policies themselves are in services/policy.
#ifndef FOLIO_SERVICES_CACHE_DECISION_H_
#define FOLIO_SERVICES_CACHE_DECISION_H_

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/cache/decision_threads.h"
#include "services/cache/score_board.h"
#include "services/policy/kept_scores.h"
#include "services/policy/policy.h"

namespace folio::cache {

// DecisionInput is the snapshot. DecisionView takes it under the coordinator's lock. It points at
// score rows, and the coordinator gives their pages to no other sequence before the decision ends.
struct DecisionInput {
  struct Layer {
    // float[page_tokens][kv_heads] each, of the blocks behind the first `kept_blocks`, whose scores
    // are in DecisionInput::kept.
    RowPointers pages;
    uint32_t kept_blocks = 0;
    RowPointers prompt_pages;  // second channel, if the policy reads it
    TokenCount tokens;
    TokenCount scored;  // how many of them have a row
    policy::Limits limits;
    std::vector<TokenSlot> stretch_ends;  // of the text, if they have quotas
    bool compacts = false;                // its tokens are chosen one by one, and not a block
    bool over = false;                    // the layer is over its budget; else it stays as it is
    bool windowed = false;                // no policy decides on it
    PageCount spare;                      // compaction: pages that stay behind the survivors
  };

  SequenceId sequence;
  std::shared_ptr<const policy::Policy> policy;
  uint32_t page_tokens = 0;
  uint32_t kv_heads = 0;
  TokenCount logical_length;
  bool compact = false;  // compact the prompt, else drop a block
  bool shared = false;   // one decision for all layers, which hold the same tokens
  LayerRange judges;     // the layers whose scores it reads; all if they decide alone
  std::vector<Layer> layers;
  // The sequence's own cache of block scores, lent for the decision. Empty if it has none.
  std::vector<policy::KeptScores> kept;  // [layer]

  policy::LayerScores Scores(size_t layer) const;
  std::vector<policy::LayerScores> JudgesScores() const;
};

using Action = std::variant<CompactAction, DropAction>;

struct Decision {
  Action action;
  absl::Duration took;  // summed over the threads that worked on it
};

// A decision for each input, which depends on that input alone and brings its `kept` up to date.
// The layers and sequences are shared out among `threads`, if they are enough work. A policy that
// breaks its contract (budget, order, protected tokens) ends the process.
std::vector<Decision> Decide(absl::Span<DecisionInput> inputs, DecisionThreads& threads);

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_DECISION_H_
