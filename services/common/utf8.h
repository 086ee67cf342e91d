// UTF-8 of a stream: tokens may end inside a character, what a client gets may not.
#ifndef FOLIO_SERVICES_COMMON_UTF8_H_
#define FOLIO_SERVICES_COMMON_UTF8_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace folio {

// Offset of the first byte that is not part of a whole, well-formed character; nothing when `text`
// is UTF-8 throughout. Overlong forms, surrogates and code points over U+10FFFF are ill-formed
// (RFC 3629).
std::optional<size_t> FirstInvalidUtf8(absl::string_view text);

// Puts characters together from bytes that come in pieces. What it gives is always well-formed, and
// does not depend on where the pieces were cut. An ill-formed sequence becomes U+FFFD, one for each
// maximal start of a character (Unicode 15, section 3.9: the practice of web browsers and Python).
// One caller thread.
class Utf8Assembler {
 public:
  // The whole characters known so far and not given before; at most 3 bytes stay behind.
  std::string Feed(absl::string_view bytes);

  // The end of the stream: U+FFFD if a character was left unfinished, else nothing. It can be used
  // anew afterwards.
  std::string Flush();

  // True while a character is unfinished.
  bool pending() const { return !held_.empty(); }

 private:
  std::string held_;  // a proper start of a well-formed character
};

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_UTF8_H_
