// This header writes the configuration of a TinyModel in each format, which is the metadata of a
// GGUF file with the tiny vocabulary, and config.json.
#ifndef FOLIO_TESTS_TESTING_TINY_METADATA_H_
#define FOLIO_TESTS_TESTING_TINY_METADATA_H_

#include "nlohmann/json.hpp"
#include "tests/testing/gguf_image.h"
#include "tests/testing/tiny_model.h"

namespace folio::testing {

void SetTinyMetadata(const TinyOptions& options, GgufImage& image);
nlohmann::json TinyHfConfig(const TinyOptions& options);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_TINY_METADATA_H_
