// PlaySwap swaps a sequence out of an executor's pages and back in, beside a twin that stays.
#ifndef FOLIO_TESTS_MODEL_SWAP_SCRIPT_H_
#define FOLIO_TESTS_MODEL_SWAP_SCRIPT_H_

#include <string>

#include "services/model/executor/executor.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

// `pages` are the executor's, whose swap memory has TestPool::kSwapSlots, and `board` shows its
// score board. Meanwhile another sequence overwrites the pages. Returns "", or how the sequence
// differs from its twin afterwards.
std::string PlaySwap(Executor& executor, TestPool& pages, const kernels::PoolView& board,
                     kernels::ScoreKind score);

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_SWAP_SCRIPT_H_
