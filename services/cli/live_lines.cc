#include "services/cli/live_lines.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cli/table.h"

namespace folio::cli {

void LiveLines::Add(std::string name) {
  absl::MutexLock lock(&mu_);
  lines_.push_back({std::move(name), ""});
}

void LiveLines::Show(size_t line, absl::string_view text) {
  absl::MutexLock lock(&mu_);
  lines_[line].text = std::string(text);
  if (terminal_.out_is_tty) Draw();
}

void LiveLines::Finish(size_t line, absl::string_view text) {
  absl::MutexLock lock(&mu_);
  lines_[line].text = std::string(text);
  if (terminal_.out_is_tty) {
    Draw();
  } else {
    terminal_.out << Render(lines_[line]) << "\n" << std::flush;
  }
}

std::string LiveLines::Render(const Line& line) const {
  size_t names = 0;
  for (const Line& other : lines_) names = std::max(names, DisplayWidth(other.name));
  const std::string start =
      absl::StrCat(line.name, std::string(names - DisplayWidth(line.name), ' '), "  ");
  if (!terminal_.out_is_tty) return start + line.text;
  // A line that wraps cannot be redrawn, so only its beginning or, if it is long, its end is shown.
  const size_t room = static_cast<size_t>(std::max(terminal_.width, 40)) - names - 3;
  const size_t width = DisplayWidth(line.text);
  if (width <= room) return start + line.text;
  const std::string skipped = Truncate(line.text, width - room + 3);
  return absl::StrCat(start, "...", absl::string_view(line.text).substr(skipped.size()));
}

void LiveLines::Draw() {
  if (drawn_) terminal_.out << "\033[" << lines_.size() << "A";
  drawn_ = true;
  for (const Line& line : lines_) terminal_.out << "\r\033[K" << Render(line) << "\n";
  terminal_.out << std::flush;
}

}  // namespace folio::cli
