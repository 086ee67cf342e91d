// The part of top_view.h about keys.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "services/cli/top_view.h"

namespace folio::cli {

bool TopView::OnKey(const Key& key) {
  using Name = Key::Name;
  if (key.name == Name::kInterrupt) return false;
  if (editing_) {
    OnFilterKey(key);
    return true;
  }
  const int page = std::max(1, size_.height - 12);
  switch (key.name) {
    case Name::kCharacter:
      return OnCharacter(key.character);
    case Name::kEnter:
      if (!opened_.has_value() && selected_ < ids_.size()) {
        opened_ = ids_[selected_];
        detail_.clear();
        detail_top_ = 0;
      }
      return true;
    case Name::kEscape:
    case Name::kBackspace:
      if (opened_.has_value()) {
        opened_.reset();
      } else {
        filter_.clear();
      }
      help_ = false;
      return true;
    case Name::kUp:
      Move(-1);
      return true;
    case Name::kDown:
      Move(1);
      return true;
    case Name::kPageUp:
      Move(-page);
      return true;
    case Name::kPageDown:
      Move(page);
      return true;
    case Name::kHome:
      Move(-int64_t{1} << 30);
      return true;
    case Name::kEnd:
      Move(int64_t{1} << 30);
      return true;
    case Name::kInterrupt:
      break;
  }
  return true;
}

bool TopView::OnCharacter(char character) {
  switch (character) {
    case 'q':
      if (!opened_.has_value()) return false;
      opened_.reset();
      break;
    case 's':
      sort_ = (sort_ + 1) % kSorts;
      break;
    case 'S':
      sort_ = (sort_ + kSorts - 1) % kSorts;
      break;
    case '/':
      editing_ = true;
      filter_.clear();
      break;
    case 'p':
      paused_ = !paused_;
      break;
    case 'j':
      Move(1);
      break;
    case 'k':
      Move(-1);
      break;
    case '?':
    case 'h':
      help_ = !help_;
      break;
    default:
      break;
  }
  return true;
}

void TopView::OnFilterKey(const Key& key) {
  switch (key.name) {
    case Key::Name::kCharacter:
      filter_ += key.character;
      break;
    case Key::Name::kBackspace:
      if (!filter_.empty()) filter_.pop_back();
      break;
    case Key::Name::kEscape:
      filter_.clear();
      editing_ = false;
      break;
    case Key::Name::kEnter:
      editing_ = false;
      break;
    default:
      break;
  }
  selected_ = 0;
}

void TopView::Move(int64_t by) {
  if (opened_.has_value()) {
    const int64_t most = std::max<int64_t>(0, std::ssize(detail_) - size_.height + 1);
    detail_top_ =
        static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(detail_top_) + by, 0, most));
    return;
  }
  const auto last = static_cast<int64_t>(ids_.empty() ? 0 : ids_.size() - 1);
  selected_ =
      static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(selected_) + by, 0, last));
}

}  // namespace folio::cli
