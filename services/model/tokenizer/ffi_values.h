// These functions pass texts to the tokenizer's static library and take over what it gives back.
// They are pure, and only this folder includes them.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_FFI_VALUES_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_FFI_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "services/model/tokenizer/ffi/tokenizer_ffi.h"

namespace folio::model {

// Borrows `text`.
inline folio_tok_view View(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Copies the library's bytes and frees them.
inline std::string Take(folio_tok_bytes bytes) {
  std::string text;
  if (bytes.size > 0) text.assign(reinterpret_cast<const char*>(bytes.data), bytes.size);
  folio_tok_free_bytes(bytes);
  return text;
}

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_FFI_VALUES_H_
