// Finds stop strings in text that comes in pieces, and holds back what may still become one, so
// that no part of a stop string is ever shown.
#ifndef FOLIO_SERVICES_COMMON_STOP_MATCHER_H_
#define FOLIO_SERVICES_COMMON_STOP_MATCHER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace folio {

// The stop string that ends first counts; of several that end together, the longest. What comes
// out does not depend on where the pieces were cut. Time is linear in the text, per stop string
// (Knuth, Morris, Pratt 1977). Fed whole characters and given stop strings in UTF-8, it gives whole
// characters. One caller thread.
class StopMatcher {
 public:
  struct Found {
    std::string text;  // safe to show: what came before the stop string, or may not be one
    std::optional<size_t> stop;  // index of the stop string that was found
  };

  // Empty stop strings never match.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // After a stop string was found all further text is swallowed.
  Found Feed(absl::string_view text);

  // The end of the stream without a stop string: what was held back.
  std::string Flush();

 private:
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  // border[i]: longest proper border of the first i bytes
    size_t matched = 0;          // bytes of the pattern that the stream ends with
  };

  static void Advance(Pattern& pattern, char byte);

  std::vector<Pattern> patterns_;
  std::string held_;  // the end of the stream, as long as the longest partial match
  bool done_ = false;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_COMMON_STOP_MATCHER_H_
