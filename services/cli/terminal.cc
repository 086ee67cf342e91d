#include "services/cli/terminal.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::cli {

void Interrupts::Raise() {
  absl::MutexLock lock(&mu_);
  if (!handler_) {
    otherwise_();
    return;
  }
  raised_ = true;
  handler_();
}

bool Interrupts::raised() const {
  absl::MutexLock lock(&mu_);
  return raised_;
}

void Interrupts::Clear() {
  absl::MutexLock lock(&mu_);
  raised_ = false;
}

Interrupts::Scope::Scope(Interrupts* interrupts, std::function<void()> handler)
    : interrupts_(interrupts) {
  absl::MutexLock lock(&interrupts_->mu_);
  previous_ = std::exchange(interrupts_->handler_, std::move(handler));
}

Interrupts::Scope::~Scope() {
  absl::MutexLock lock(&interrupts_->mu_);
  interrupts_->handler_ = std::move(previous_);
}

std::string Terminal::Printable(absl::string_view text) const {
  if (!out_is_tty) return std::string(text);
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // U+0080..U+009F are control characters too; in UTF-8 they begin with 0xC2.
    const bool c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) {
      result += "\xEF\xBF\xBD";
      ++i;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      absl::StrAppend(&result, "^", std::string(1, static_cast<char>(byte ^ 0x40)));
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string Terminal::Bold(absl::string_view text) const {
  return color ? absl::StrCat("\033[1m", text, "\033[0m") : std::string(text);
}

std::string Terminal::Faint(absl::string_view text) const {
  return color ? absl::StrCat("\033[2m", text, "\033[0m") : std::string(text);
}

}  // namespace folio::cli
