// TinyTokenizer is the tokenizer of the tiny vocabulary, whose text ends with kTinyImEnd.
#ifndef FOLIO_TESTS_WORKER_TINY_TOKENIZER_H_
#define FOLIO_TESTS_WORKER_TINY_TOKENIZER_H_

#include <gtest/gtest.h>

#include "services/model/tokenizer/tokenizer.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::worker::testing {

inline const model::Tokenizer& TinyTokenizer() {
  static const model::Tokenizer* const tokenizer = [] {
    model::TokenizerSpec spec;
    spec.tokenizer_json = folio::testing::TinyTokenizerJson().dump();
    spec.eos_ids = {folio::testing::kTinyImEnd};
    auto made = model::Tokenizer::Create(spec, folio::testing::kTinyVocab);
    EXPECT_TRUE(made.ok()) << made.status();
    return made->release();
  }();
  return *tokenizer;
}

}  // namespace folio::worker::testing

#endif  // FOLIO_TESTS_WORKER_TINY_TOKENIZER_H_
