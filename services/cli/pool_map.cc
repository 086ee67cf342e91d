#include "services/cli/pool_map.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/strings/str_cat.h"
#include "services/cli/format.h"

namespace folio::cli {
namespace {

constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
constexpr size_t kMostLetters = sizeof(kLetters) - 1;
constexpr char kOtherOwner = '*';
constexpr size_t kOwnersInLegend = 12;

const char* Ramp(size_t level, bool utf8) {
  static constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 8> kAscii = {"1", "2", "3", "4", "5", "6", "7", "8"};
  return (utf8 ? kBlocks : kAscii)[level];
}

const char* Held(bool utf8) { return utf8 ? "█" : "#"; }
const char* Free(bool utf8) { return utf8 ? "·" : "."; }

}  // namespace

struct PoolMap::Cell {
  uint64_t free = 0, held = 0, quarantined = 0;
  std::map<uint64_t, uint64_t> owners;  // their pages
  double score_sum = 0;
  uint64_t scored = 0;
};

PoolMap::PoolMap(absl::Span<const folio::v1::PageRun> runs) : runs_(runs) {
  std::map<uint64_t, uint64_t> pages;
  for (const auto& run : runs_) {
    counts_.total += run.pages();
    if (run.state() == folio::v1::PAGE_STATE_FREE) counts_.free += run.pages();
    if (run.state() == folio::v1::PAGE_STATE_QUARANTINED) counts_.quarantined += run.pages();
    if (run.state() != folio::v1::PAGE_STATE_HELD) continue;
    counts_.held += run.pages();
    if (run.sequence_id() != 0) pages[run.sequence_id()] += run.pages();
    if (run.has_score()) scores_.push_back(run.score());
  }
  for (const auto& [sequence, count] : pages) owners_.push_back({sequence, count});
  std::stable_sort(owners_.begin(), owners_.end(),
                   [](const Owner& a, const Owner& b) { return a.pages > b.pages; });
  std::sort(scores_.begin(), scores_.end());
}

uint64_t PoolMap::PagesOfACharacter(int width, int rows) const {
  const auto room = static_cast<uint64_t>(std::max(width, 1)) * std::max(rows, 1);
  return std::max<uint64_t>(1, (counts_.total + room - 1) / room);
}

std::vector<PoolMap::Cell> PoolMap::Cells(uint64_t pages_each) const {
  std::vector<Cell> cells((counts_.total + pages_each - 1) / pages_each);
  uint64_t page = 0;
  for (const auto& run : runs_) {
    for (uint64_t left = run.pages(); left > 0;) {
      Cell& cell = cells[page / pages_each];
      const uint64_t here = std::min(left, pages_each - page % pages_each);
      if (run.state() == folio::v1::PAGE_STATE_FREE) cell.free += here;
      if (run.state() == folio::v1::PAGE_STATE_QUARANTINED) cell.quarantined += here;
      if (run.state() == folio::v1::PAGE_STATE_HELD) {
        cell.held += here;
        cell.owners[run.sequence_id()] += here;
      }
      if (run.has_score()) {
        cell.score_sum += double{run.score()} * static_cast<double>(here);
        cell.scored += here;
      }
      page += here;
      left -= here;
    }
  }
  return cells;
}

char PoolMap::LetterOf(uint64_t sequence) const {
  for (size_t i = 0; i < std::min(owners_.size(), kMostLetters); ++i) {
    if (owners_[i].sequence == sequence) return kLetters[i];
  }
  return kOtherOwner;
}

std::string PoolMap::Draw(const Cell& cell, MapBy by, bool utf8) const {
  if (cell.quarantined > std::max(cell.held, cell.free)) return "!";
  if (cell.free >= cell.held) return Free(utf8);
  if (by == MapBy::kState) return Held(utf8);
  if (by == MapBy::kOwner) {
    const auto largest =
        std::max_element(cell.owners.begin(), cell.owners.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    return std::string(1, LetterOf(largest->first));
  }
  if (cell.scored == 0) return "-";
  const auto mean = static_cast<float>(cell.score_sum / static_cast<double>(cell.scored));
  const auto below = std::lower_bound(scores_.begin(), scores_.end(), mean) - scores_.begin();
  return Ramp(std::min<size_t>(7, static_cast<size_t>(below) * 8 / scores_.size()), utf8);
}

std::vector<std::string> PoolMap::Rows(MapBy by, int width, int rows, bool utf8) const {
  std::vector<std::string> lines;
  const std::vector<Cell> cells = Cells(PagesOfACharacter(width, rows));
  const auto columns = static_cast<size_t>(std::max(width, 1));
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i % columns == 0) lines.emplace_back();
    lines.back() += Draw(cells[i], by, utf8);
  }
  const size_t rest = lines.size() > 1 ? cells.size() % columns : 0;
  if (rest > 0) lines.back() += std::string(columns - rest, ' ');
  return lines;
}

std::vector<std::string> PoolMap::Legend(MapBy by, bool utf8) const {
  const std::string states = absl::StrCat(Free(utf8), " free, ! quarantined");
  if (by == MapBy::kState) return {absl::StrCat(Held(utf8), " held, ", states)};
  if (by == MapBy::kScore) {
    return {absl::StrCat(Ramp(0, utf8), " low to ", Ramp(7, utf8),
                         " high, by the rank among all scores, - without a score, ", states)};
  }
  std::vector<std::string> lines;
  for (size_t i = 0; i < std::min(owners_.size(), kOwnersInLegend); ++i) {
    lines.push_back(absl::StrCat(std::string(1, kLetters[i]), " sequence ", owners_[i].sequence,
                                 ", ", FormatCount(owners_[i].pages), " pages"));
  }
  if (owners_.size() > kOwnersInLegend) {
    lines.push_back(absl::StrCat("further letters, and ", std::string(1, kOtherOwner), ", are ",
                                 owners_.size() - kOwnersInLegend, " smaller sequences"));
  }
  lines.push_back(states);
  return lines;
}

}  // namespace folio::cli
