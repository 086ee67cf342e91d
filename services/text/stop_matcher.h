// StopMatcher finds stop strings in text that comes in pieces. It holds back text that may still
// become a stop string, so that a client never sees a part of one.
#ifndef FOLIO_SERVICES_TEXT_STOP_MATCHER_H_
#define FOLIO_SERVICES_TEXT_STOP_MATCHER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace folio {

// The stop string that ends first counts, or the longest of several that end together. The output
// does not depend on where the pieces were cut. Time is linear in the text, per stop string (Knuth,
// Morris, Pratt 1977). If the input is whole characters and the stop strings are UTF-8, the output
// is whole characters. For one thread.
class StopMatcher {
 public:
  struct Found {
    std::string text;            // safe to show, because it cannot be part of a stop string
    std::optional<size_t> stop;  // index of the stop string that was found
  };

  // Empty stop strings never match.
  explicit StopMatcher(const std::vector<std::string>& stops);

  // After a stop string was found, all further text is dropped.
  Found Feed(absl::string_view text);

  // Ends the stream without a stop string and returns the text that was held back.
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

#endif  // FOLIO_SERVICES_TEXT_STOP_MATCHER_H_
