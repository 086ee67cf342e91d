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

// Prompt tokens that a step may have in all. A token of a running stream takes as long as the step
// it is in, so there are fewer of them beside decodes; alone, the larger chunk reads the weights
// less often.
struct PromptChunk {
  uint32_t alone = 512;
  uint32_t beside_decodes = 128;  // never more than alone
};

// What the first prompt leaves of the chunk goes to the next. A prompt whose last queries are to
// score it is cut so that they lie in one chunk, which may be larger for that. Precondition: fewer
// sequences than executor.max_rows().
Batch ChooseBatch(const std::vector<std::unique_ptr<Sequence>>& sequences,
                  const model::Executor& executor, const PromptChunk& chunk, uint32_t page_tokens);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_BATCHER_H_
