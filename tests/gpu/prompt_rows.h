// ExpectAlikeForRows computes prompts of given lengths on a GPU and on the CPU. Each is a step of
// so many rows.
#ifndef FOLIO_TESTS_GPU_PROMPT_ROWS_H_
#define FOLIO_TESTS_GPU_PROMPT_ROWS_H_

#include <initializer_list>

#include "tests/gpu/mirror_executor.h"
#include "tests/model/conversation.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {

// Logits may be up to `apart` apart, and the GPU's token up to `behind` less likely for the CPU
// than the CPU's own.
inline void ExpectAlikeForRows(Mirror& mirror, TestPool& pool, const CacheGeometry& geometry,
                               uint32_t vocab, std::initializer_list<uint32_t> lengths, float apart,
                               float behind) {
  for (const uint32_t rows : lengths) {
    StepSegment segment;
    segment.slot = mirror.tables().Acquire(kernels::ScoreKind::kNone);
    mirror.tables().Extend(segment.slot, pool.Take(geometry.pages_for(rows)));
    segment.prompt = true;
    segment.want_output = true;
    segment.top_logprobs = 0;
    for (const uint32_t token : RandomTokens(rows, vocab, rows)) segment.tokens.emplace_back(token);
    mirror.Collect(mirror.Enqueue({{segment}}));
    EXPECT_LT(mirror.largest, apart) << rows << " rows";
    EXPECT_LT(mirror.behind, behind) << rows << " rows";
  }
}

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_GPU_PROMPT_ROWS_H_
