// The device that runs steps. Written for one that runs behind the host: enqueue a step, learn its
// result later. A CPU finishes at once (pipeline_depth 0); a GPU may be one step behind (1). The
// scheduler above is the same for both.
//
// The executor keeps, per slot, the sequence's block tables and lengths in the form its kernels
// want; what it keeps can always be rebuilt from the manager's record. Table edits are ordered with
// steps: an edit called after Enqueue(s) and before Enqueue(s + 1) takes effect between the two.
// One caller thread.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/views.h"
#include "services/common/ids.h"

namespace folio::model {

// A sequence's place in the executor, reused after Release.
using SlotId = StrongInt<struct ExecutorSlotTag, uint32_t>;
using StepTicket = StrongInt<struct StepTicketTag, uint64_t>;

struct Sampling {
  float temperature = 0;  // 0: greedy, lowest id on ties
  uint32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
};

// Logical positions [begin, end) of tokens that lie one after another.
struct PositionRun {
  Position begin;
  Position end;
};

// By what attention a prompt's tokens are scored when it ends.
struct WindowScore {
  uint32_t queries = 0;  // its last rows, at most the chunk's, score every resident token; 0: none
  uint32_t neighbours = 0;  // see kernels::WindowRun
  uint32_t plane = 0;
};

// What one sequence does in a step: a chunk of its prompt, or one decoded token.
struct StepSegment {
  SlotId slot;
  bool prompt = false;  // arithmetic of prompt rows or of decode rows (see kernels/cpu/ops.h)
  // Tokens to feed. Empty (decode only): the token this slot sampled in its previous step.
  std::vector<TokenId> tokens;
  Position first_position;   // logical position of the first of them
  bool want_output = false;  // logits of the last row are needed
  // With want_output: sample with these; or, when `target` is set, take that token instead.
  Sampling sampling;
  std::optional<TokenId> target;
  int top_logprobs = -1;  // -1: no log-probabilities; n: the chosen and the n most likely
  // After the step, resident tokens are scored. Slots of kKeyDifference: all of them. Slots of
  // kUnrotatedDifference: all of them in the chunk that ends the prompt, else in each layer those
  // of the page that this step filled, if any.
  bool score_resident = false;
  // In the chunk that ends the prompt.
  WindowScore window;
};

struct StepBatch {
  std::vector<StepSegment> segments;
};

struct SegmentOutput {
  SlotId slot;
  TokenId token;      // sampled, or the target
  float logprob = 0;  // natural log, model's distribution; with top_logprobs >= 0
  std::vector<std::pair<TokenId, float>> top;  // most likely first
};

struct StepOutput {
  std::vector<SegmentOutput> outputs;  // of segments with want_output, in order
  absl::Status status;                 // a device fault; the slots of the step are lost
};

// Seconds spent by kind of work since the start; for metrics and benchmarks.
struct ExecutorTimes {
  double attention = 0, linear = 0, append_score = 0, compact = 0, sample = 0, other = 0;
  double score = 0;     // of resident tokens, on demand
  double exchange = 0;  // waiting for other ranks, and adding what they computed
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual int pipeline_depth() const = 0;
  virtual uint32_t max_rows() const = 0;  // rows (tokens) one step may have

  // A new slot with an empty table.
  virtual SlotId Acquire(kernels::ScoreKind score) = 0;
  // Appends pages to each layer's table; pages[layer].
  virtual void ExtendTables(SlotId slot, const std::vector<std::vector<PageRef>>& pages) = 0;
  // Makes a fresh slot's tables those of a sequence that another executor left: pages[layer], and
  // the positions of the resident tokens, as ascending runs. K, V and scores are in the pages.
  virtual void Restore(SlotId slot, const std::vector<std::vector<PageRef>>& pages,
                       const std::vector<std::vector<PositionRun>>& positions) = 0;
  // Gathers keep[layer] to the front of each layer; the table keeps the survivors' pages and
  // spare[layer] more.
  virtual void Compact(SlotId slot, const std::vector<std::vector<SlotIndex>>& keep,
                       const std::vector<uint32_t>& spare) = 0;
  // Takes block[layer] (a full one, if any) out of each layer's table.
  virtual void DropBlocks(SlotId slot, const std::vector<std::optional<BlockIndex>>& block) = 0;
  virtual void Release(SlotId slot) = 0;

  // Layer's newest page with a token in it; the page a commit names when it became full.
  virtual PageRef NewestPage(SlotId slot, LayerIndex layer) const = 0;
  virtual uint32_t resident(SlotId slot, LayerIndex layer) const = 0;
  // Pages in the layer's table.
  virtual uint32_t pages(SlotId slot, LayerIndex layer) const = 0;
  // Tokens that still fit into the pages the slot has, in the fullest layer.
  virtual uint32_t free_tokens(SlotId slot) const = 0;
  // Equal for equal tables, lengths and positions; ranks compare it.
  virtual uint64_t TableDigest(SlotId slot) const = 0;

  virtual StepTicket Enqueue(const StepBatch& batch) = 0;
  // Waits for the step; tickets are collected in order.
  virtual StepOutput Collect(StepTicket ticket) = 0;

  // OK, or why the device can run no step any more: what it was told since may not have been done.
  virtual absl::Status fault() const { return absl::OkStatus(); }
  // Whether that can come while nothing is under way: it is then to be asked now and then.
  virtual bool depends_on_others() const { return false; }

  virtual ExecutorTimes times() const = 0;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_H_
