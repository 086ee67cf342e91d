// Scheduler chooses what runs in the next step: one token of every sequence that can decode, and
// beside them a chunk of prompt, first come first served (chunked prefill).
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SCHEDULER_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "services/model/executor/executor.h"
#include "services/model/executor/sequence_tables.h"
#include "services/worker/engine/sequence.h"

namespace folio::worker {

struct Batch {
  model::StepBatch step;             // decode segments first, then prompt segments
  std::vector<Sequence*> sequences;  // of the segments, in the same order
};

// TokenBudget is the number of prompt tokens that a step may have in all. Every stream waits for
// the whole step that its token is in, so fewer prompt tokens run beside decodes. A step with
// prompts alone takes more, because a larger chunk reads the weights less often.
struct TokenBudget {
  uint32_t alone = 512;
  uint32_t beside_decodes = 128;  // never more than alone
};

// The choice changes neither sequences nor tables; the step loop carries it out.
class Scheduler {
 public:
  // Borrows the tables. `max_rows` is the executor's.
  Scheduler(const TokenBudget& budget, uint32_t max_rows, const model::SequenceTables* tables);

  // The tokens that the first prompt leaves of the budget go to the next. A prompt whose last
  // queries are to score it is cut so that they lie in one chunk, which may exceed the budget for
  // that. Precondition: fewer sequences than max_rows.
  Batch ChooseBatch(const SequenceList& sequences) const;

 private:
  bool CanDecode(const Sequence& sequence) const;
  model::StepSegment DecodeSegment(const Sequence& sequence) const;

  const TokenBudget budget_;
  const uint32_t max_rows_;
  const model::SequenceTables* const tables_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SCHEDULER_H_
