// TopView is the screen of `folioctl top` without a terminal: what is chosen, what each key does,
// and the lines to draw.
#ifndef FOLIO_SERVICES_CLI_TOP_VIEW_H_
#define FOLIO_SERVICES_CLI_TOP_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/cli/screen.h"
#include "services/cli/terminal.h"
#include "services/cli/top_data.h"

namespace folio::cli {

// Thread-compatible.
class TopView {
 public:
  static constexpr size_t kSorts = 6;  // orders of the rows

  // Carries out a key. Returns false if the user wants to leave.
  bool OnKey(const Key& key);
  void Resize(ScreenSize size) { size_ = size; }

  // Exactly as many lines as the screen has, each of at most its width.
  std::vector<std::string> Draw(const TopData& data, const Terminal& terminal);
  // All lines there are, for output without a screen.
  std::vector<std::string> DrawAll(const TopData& data, const Terminal& terminal);

  // The sequence that is open on the whole screen, if one is. The caller gives its lines.
  std::optional<uint64_t> opened() const { return opened_; }
  void SetDetail(std::vector<std::string> lines) { detail_ = std::move(lines); }
  // A sentence in the last line, such as an error, until the next one.
  void SetNote(std::string note) { note_ = std::move(note); }
  bool paused() const { return paused_; }

 private:
  bool OnCharacter(char character);
  void OnFilterKey(const Key& key);
  void Move(int64_t by);
  // The sequences that pass the filter, in the chosen order.
  std::vector<const folio::v1::Sequence*> Chosen(const TopData& data) const;
  std::vector<std::string> Head(const TopData& data, const Terminal& terminal) const;
  std::vector<std::string> Rows(const TopData& data, const Terminal& terminal) const;
  std::string Foot() const;
  // A page of `lines` around the selected one.
  void Scroll(std::vector<std::string>* lines, size_t height, size_t selected);

  ScreenSize size_;
  size_t sort_ = 0;
  std::string filter_;
  bool editing_ = false;  // keys go to the filter
  bool paused_ = false;
  bool help_ = false;
  size_t selected_ = 0;
  size_t top_ = 0;             // the first row that is shown
  std::vector<uint64_t> ids_;  // of the rows drawn last
  std::optional<uint64_t> opened_;
  std::vector<std::string> detail_;
  size_t detail_top_ = 0;  // the first line of it that is shown
  std::string note_;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_TOP_VIEW_H_
