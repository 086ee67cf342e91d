#include "services/cli/table.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::cli {
namespace {

bool StartsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

size_t DisplayWidth(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

std::string Truncate(absl::string_view text, size_t width) {
  size_t seen = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (StartsCharacter(text[i]) && seen++ == width) return std::string(text.substr(0, i));
  }
  return std::string(text);
}

Table::Table(std::vector<Column> columns, bool wide) : columns_(std::move(columns)), wide_(wide) {}

std::vector<size_t> Table::Shown() const {
  std::vector<size_t> shown;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (wide_ || !columns_[c].wide) shown.push_back(c);
  }
  return shown;
}

Table Table::Facts() { return Table({{"", Align::kLeft}, {"", Align::kLeft}}); }

void Table::Row(std::vector<std::string> cells) {
  FOLIO_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::Render(const Terminal& terminal) const {
  const std::vector<size_t> shown = Shown();
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    titles.push_back(columns_[c].title);
    widths.push_back(DisplayWidth(titles[c]));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (const size_t c : shown) {
      const std::string padding(widths[c] - DisplayWidth(cells[c]), ' ');
      const bool right = columns_[c].align == Align::kRight;
      absl::StrAppend(&text, c == shown.front() ? "" : "  ", right ? padding : "", cells[c],
                      right ? "" : padding);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  std::string result;
  if (!absl::c_all_of(titles, [](const std::string& title) { return title.empty(); })) {
    absl::StrAppend(&result, terminal.Bold(line(titles)), "\n");
  }
  for (const auto& row : rows_) absl::StrAppend(&result, line(row), "\n");
  return result;
}

}  // namespace folio::cli
