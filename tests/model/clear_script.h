// PlayClearing runs a sequence in pages that another tenant has used.
#ifndef FOLIO_TESTS_MODEL_CLEAR_SCRIPT_H_
#define FOLIO_TESTS_MODEL_CLEAR_SCRIPT_H_

#include <string>

#include "services/model/executor/executor.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

// `pages` are the executor's. Returns "", or which page is not as it should be.
std::string PlayClearing(Executor& executor, TestPool& pages);

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_CLEAR_SCRIPT_H_
