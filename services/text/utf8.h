// Utf8Assembler makes whole UTF-8 characters of a stream of bytes. Tokens may end inside a
// character, but text for a client may not.
#ifndef FOLIO_SERVICES_TEXT_UTF8_H_
#define FOLIO_SERVICES_TEXT_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace folio {

// Offset of the first byte that is not part of a whole, well-formed character, or nothing if `text`
// is UTF-8 throughout. Overlong forms, surrogates and code points over U+10FFFF are ill-formed (RFC
// 3629).
std::optional<size_t> FirstInvalidUtf8(absl::string_view text);

// The bytes as text, with U+FFFD for what is not UTF-8, as Utf8Assembler has it.
std::string LossyUtf8(absl::string_view bytes);

// Puts characters together from bytes that come in pieces. Its output is always well-formed and
// does not depend on where the pieces were cut. An ill-formed sequence becomes U+FFFD, one for each
// maximal start of a character (Unicode 15, section 3.9, the practice of web browsers and Python).
// For one thread.
class Utf8Assembler {
 public:
  // Returns the new whole characters. At most 3 bytes stay behind.
  std::string Feed(absl::string_view bytes);

  // Ends the stream. Returns U+FFFD if a character was left unfinished, otherwise nothing. The
  // object can be used for another stream afterwards.
  std::string Flush();

  // True while a character is unfinished.
  bool pending() const { return !held_.empty(); }

 private:
  std::string held_;  // a proper start of a well-formed character
};

}  // namespace folio

#endif  // FOLIO_SERVICES_TEXT_UTF8_H_
