// DecisionView reads a sequence's record and tells whether its policy must decide, and on what. It
// makes the snapshot that the policy reads later without the coordinator's lock.
//
// Borrows the record for the duration of a call under that lock.
#ifndef FOLIO_SERVICES_CACHE_DECISION_VIEW_H_
#define FOLIO_SERVICES_CACHE_DECISION_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/cache/decision.h"
#include "services/cache/score_board.h"
#include "services/cache/sequence_record.h"
#include "services/policy/cache_config.h"

namespace folio::cache {

class DecisionView {
 public:
  DecisionView(const SequenceRecord& record, const ScoreBoard& board)
      : record_(record), board_(board) {}

  // A prompt must be compacted where it stands, or a layer holds more full pages than its budget in
  // decode, and no plan is in flight.
  bool due() const;

  // How many of a layer's first pages have scores of all their tokens that a decision would read.
  PageCount ScoredPages(size_t layer) const;

  // The decision that is due: a compaction in the prompt or at its end, else one block of each
  // layer over its budget. `kept` is by layer, or empty if nothing is known.
  DecisionInput Snapshot(std::vector<policy::KeptScores> kept) const;

  // The view of a policy with the settings `other` (none: the sequence's own) if it had to decide
  // now: all resident tokens of every layer. FAILED_PRECONDITION during the prompt, or if the board
  // holds scores of another kind than the policy reads.
  absl::StatusOr<DecisionInput> DryRun(const std::optional<policy::CacheConfig>& other) const;

 private:
  // The view without its layers.
  DecisionInput EmptyInput(const policy::CacheConfig& cache) const;
  // One layer with its first `tokens`, without the pages of the first `kept_blocks`.
  DecisionInput::Layer MakeLayer(const policy::CacheConfig& cache, size_t layer, TokenCount tokens,
                                 bool compacts, uint32_t kept_blocks = 0) const;
  // Adds what the shares of the budget ask for to the layers' limits, and their stretches. Layers
  // that decide together have the same ones.
  void AddShares(const policy::CacheConfig& cache, DecisionInput& input) const;
  void AddShares(const policy::Shares& shares, const BlockTable& table,
                 DecisionInput::Layer& layer) const;
  // Adds the parts that only a compaction needs.
  void AddCompaction(size_t index, DecisionInput::Layer& layer) const;
  // Resident tokens that belong to the prompt.
  TokenCount PromptTokens(const BlockTable& table) const;
  // How many of the first `tokens` have a score that is written at `time`.
  TokenCount ScoredTokens(const BlockTable& table, TokenCount tokens, ScoreTime time) const;

  const SequenceRecord& record_;
  const ScoreBoard& board_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_DECISION_VIEW_H_
