#include "services/text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace folio {

StopMatcher::StopMatcher(const std::vector<std::string>& stops) {
  for (const std::string& stop : stops) {
    Pattern pattern;
    pattern.text = stop;
    pattern.border.assign(stop.size() + 1, 0);
    for (size_t i = 1; i < stop.size(); ++i) {
      size_t length = pattern.border[i];
      while (length > 0 && stop[i] != stop[length]) length = pattern.border[length];
      pattern.border[i + 1] = stop[i] == stop[length] ? length + 1 : 0;
    }
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Advance(Pattern& pattern, char byte) {
  if (pattern.text.empty()) return;
  size_t matched = pattern.matched;
  while (matched > 0 && pattern.text[matched] != byte) matched = pattern.border[matched];
  pattern.matched = pattern.text[matched] == byte ? matched + 1 : 0;
}

StopMatcher::Found StopMatcher::Feed(absl::string_view text) {
  Found found;
  if (done_) return found;
  for (const char byte : text) {
    held_.push_back(byte);
    size_t longest_match = 0;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      Pattern& pattern = patterns_[i];
      Advance(pattern, byte);
      const bool whole = pattern.matched == pattern.text.size() && !pattern.text.empty();
      if (whole && pattern.matched > longest_match) {
        longest_match = pattern.matched;
        found.stop = i;
      }
    }
    if (found.stop.has_value()) {
      found.text = held_.substr(0, held_.size() - longest_match);
      held_.clear();
      done_ = true;
      return found;
    }
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.matched);
  found.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return found;
}

std::string StopMatcher::Flush() {
  for (Pattern& pattern : patterns_) pattern.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace folio
