// Table writes aligned columns of text.
#ifndef FOLIO_SERVICES_CLI_TABLE_H_
#define FOLIO_SERVICES_CLI_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/cli/terminal.h"

namespace folio::cli {

// Columns of a text on a terminal, which is the number of its characters (UTF-8).
size_t DisplayWidth(absl::string_view text);
// The first `width` characters of `text`.
std::string Truncate(absl::string_view text, size_t width);

class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    bool wide = false;  // only tables that are wide have it
  };

  explicit Table(std::vector<Column> columns, bool wide = false);
  // A list of names and values without a header line.
  static Table Facts();

  // One cell per column, whether it is shown or not.
  void Row(std::vector<std::string> cells);
  // Columns are two spaces apart, and lines do not end in spaces. There is a header line unless all
  // titles are empty.
  std::string Render(const Terminal& terminal) const;

 private:
  std::vector<size_t> Shown() const;  // the columns, by number

  std::vector<Column> columns_;
  bool wide_;
  std::vector<std::vector<std::string>> rows_;
};

inline constexpr Table::Align kLeft = Table::Align::kLeft;
inline constexpr Table::Align kRight = Table::Align::kRight;
inline constexpr bool kOnlyWide = true;

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_TABLE_H_
