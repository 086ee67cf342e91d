// Scheduler chooses what runs in the next step: one token of every sequence that can decode, and
// beside them chunks of prompts (chunked prefill). How many tokens of prompts is for chunk_sizes.h
// to say.
//
// The prompt with the fewest tokens left goes first, because a short request must not wait for all
// of a long one before it. So that short ones do not hold a long one back forever, the prompt that
// came first gets at least half of each step's prompt tokens.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SCHEDULER_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "services/model/executor/executor.h"
#include "services/model/executor/sequence_tables.h"
#include "services/worker/engine/chunk_sizes.h"
#include "services/worker/engine/sequence.h"

namespace folio::worker {

struct Batch {
  model::StepBatch step;             // decode segments first, then prompt segments
  std::vector<Sequence*> sequences;  // of the segments, in the same order
  double attended = 0;               // resident tokens, summed over the prompt tokens

  StepSize size() const;
  uint32_t rows() const;  // tokens that the step computes
};

// The choice changes neither sequences nor tables; the step loop carries it out.
class Scheduler {
 public:
  // Borrows the tables. `max_rows` is the executor's.
  Scheduler(const TokenBudget& budget, uint32_t max_rows, const model::SequenceTables* tables);

  // The tokens that a prompt leaves of the budget go to the next. A chunk ends at the next stop of
  // its prompt at the latest. A prompt whose last queries are
  // to score it is cut so that they lie in one chunk, which may exceed the budget for that. A
  // sequence whose client does not read stands still, and so does one whose pages are full. One
  // whose answer has a form waits for each token, because the form decides by it about the next.
  // Precondition: fewer sequences than max_rows.
  Batch ChooseBatch(const SequenceList& sequences) const;

  // A step took so long, without the time that it waited for the one before it.
  void OnStep(const StepSize& size, absl::Duration took) { chunks_.Add(size, took); }

 private:
  bool CanDecode(const Sequence& sequence) const;
  // Resident tokens before the next chunk.
  uint32_t Context(const Sequence& sequence) const;
  // Adds prompt segments that about fill `room`, of at most so many rows.
  void AddPrompts(const SequenceList& sequences, PromptRoom room, uint32_t rows,
                  Batch* batch) const;
  model::StepSegment DecodeSegment(const Sequence& sequence) const;

  ChunkSizes chunks_;
  const uint32_t max_rows_;
  const model::SequenceTables* const tables_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SCHEDULER_H_
