// Executor is a device that runs steps over the sequences of its SequenceTables. The interface is
// written for a device that runs behind the host: Enqueue starts a step, Collect returns its result
// later. A CPU finishes in Enqueue (pipeline_depth 0), a GPU may be one step behind (1). The step
// loop above is the same for both.
//
// Calls are ordered with steps: a table edit or a compaction between Enqueue(s) and Enqueue(s + 1)
// takes effect between the two steps. All calls, and all edits of the tables, come from one thread.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_EXECUTOR_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/layer_range.h"
#include "services/base/session_types.h"
#include "services/model/executor/logit_edits.h"
#include "services/model/executor/page_swap.h"
#include "services/model/executor/sequence_tables.h"

namespace folio::model {

using StepTicket = StrongInt<struct StepTicketTag, uint64_t>;

// WindowScore asks for scores of a prompt's tokens by the attention of its last queries. It goes
// with the chunk that ends the prompt.
struct WindowScore {
  uint32_t queries = 0;     // the chunk's last rows, which score every resident token (0: none)
  uint32_t neighbours = 0;  // see kernels::WindowItem
  uint32_t channel = 0;     // of the score board
};

// StepSegment is one sequence's part of a step: a chunk of its prompt, or one decoded token.
struct StepSegment {
  SequenceSlot slot;
  bool prompt = false;  // selects the arithmetic of prompt rows or of decode rows: see cpu/ops.h
  // The tokens to feed. Empty (decode only): the token that this slot sampled in its previous step.
  std::vector<TokenId> tokens;
  Position first_position;   // logical position of the first token
  bool want_output = false;  // the logits of the last row are needed
  // With want_output: how the next token is sampled, unless `target` names it. `edits` are what the
  // record's changes come to for this token, and the changes themselves are not read.
  SamplingRecord sampling;
  LogitEdits edits;
  std::optional<TokenId> target;
  int top_logprobs = -1;  // log-probabilities of the chosen token and so many others (-1: none)
  // Scores resident tokens after the step. In slots of kKeyDifference these are all of them. In
  // slots of kUnrotatedDifference they are all of them in the chunk that ends the prompt, and later
  // those of the page that the step filled in a layer, if it filled one.
  bool score_resident = false;
  WindowScore window;
  LayerRange scored_layers = kAllLayers;  // of both
};

struct StepBatch {
  std::vector<StepSegment> segments;
};

struct SegmentOutput {
  SequenceSlot slot;
  // DATA_LOSS if a logit is not finite. FAILED_PRECONDITION if `edits` left no token. Rows of a
  // step do not depend on each other, so this is the end of one sequence and the step's other
  // outputs are right. The fields below then mean nothing.
  absl::Status status;
  TokenId token;  // sampled, or the target
  // With top_logprobs >= 0: natural logarithms of the model's own distribution, before sampling
  // parameters change it.
  float logprob = 0;
  std::vector<std::pair<TokenId, float>> top;  // most likely first
};

struct StepOutput {
  std::vector<SegmentOutput> outputs;  // of the segments with want_output, in their order
  absl::Status status;                 // an error means that the sequences of the step are lost
};

// Seconds since the start, by kind of work, for metrics and benchmarks.
struct ExecutorTimes {
  double attention = 0, linear = 0, append_score = 0, compact = 0, sample = 0, other = 0;
  double score = 0;     // scores of resident tokens, on demand
  double exchange = 0;  // waiting for other ranks, and adding up their results
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual int pipeline_depth() const = 0;
  virtual uint32_t max_rows() const = 0;  // rows (tokens) that one step may have
  // The tables that steps read, and that they advance by the tokens they append.
  virtual SequenceTables& tables() = 0;

  virtual StepTicket Enqueue(const StepBatch& batch) = 0;
  // Waits for the step. Steps are collected in the order in which they were enqueued.
  virtual StepOutput Collect(StepTicket ticket) = 0;

  // Moves the surviving tokens of each layer to the front of its pages, and does the same in the
  // tables: see BlockTables::Compact. This is a call to the device, because it moves K and V.
  virtual void Compact(SequenceSlot slot, const CompactAction& compact) = 0;

  // Copies pages to the pool's swap memory or back. That is done when the next step that is
  // enqueued was collected, and at once where pipeline_depth is 0. No step in flight may touch the
  // pages.
  virtual void Swap(const PageSwaps& swaps) = 0;

  // OK, or why the device cannot run steps any more. Calls made since may then have had no effect.
  virtual absl::Status fault() const { return absl::OkStatus(); }
  // True if a fault may come while no step is running, as when another process ends. The caller
  // then asks for fault() from time to time.
  virtual bool depends_on_others() const { return false; }

  virtual ExecutorTimes times() const = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_EXECUTOR_H_
