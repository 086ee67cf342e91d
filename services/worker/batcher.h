// Who runs in the next step: every sequence that can decode, one token each, and beside them a
// chunk of prompt, first come first served. A pure choice; the engine carries it out.
#ifndef FOLIO_SERVICES_WORKER_BATCHER_H_
#define FOLIO_SERVICES_WORKER_BATCHER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "services/model/executor.h"
#include "services/worker/sequence.h"

namespace folio::worker {

struct Batch {
  model::StepBatch step;             // decode segments first, then prompt segments
  std::vector<Sequence*> sequences;  // of the segments, in the same order
};

// `prefill_chunk`: prompt tokens a step may have in all, so that decodes beside them are not held
// up longer than that takes. What the first prompt leaves of it goes to the next. Precondition:
// fewer sequences than executor.max_rows().
Batch ChooseBatch(const std::vector<std::unique_ptr<Sequence>>& sequences,
                  const model::Executor& executor, uint32_t prefill_chunk);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_BATCHER_H_
