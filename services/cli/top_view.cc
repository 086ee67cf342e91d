#include "services/cli/top_view.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/cli/format.h"
#include "services/cli/pool_map.h"
#include "services/cli/sequence_text.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

using folio::v1::Sequence;

// Columns of labels and tenants, at most.
constexpr size_t kLabelWidth = 16;

// An order of the rows. The first one is the default.
struct Sort {
  const char* name;
  std::function<double(const Sequence&, const Rates&)> key;  // ascending
};

double RateOf(const Sequence& sequence, const Rates& rates) {
  const auto it = rates.by_sequence.find(sequence.sequence_id());
  return it == rates.by_sequence.end() ? 1e18 : it->second;
}

const std::array<Sort, TopView::kSorts>& Sorts() {
  static const auto* sorts = new std::array<Sort, TopView::kSorts>{{
      {"slowest", RateOf},
      {"pages", [](const Sequence& one, const Rates&) { return -double{1} * one.held_pages(); }},
      {"length",
       [](const Sequence& one, const Rates&) { return -double{1} * one.logical_length(); }},
      {"evicted",
       [](const Sequence& one, const Rates&) { return -double{1} * one.evicted_pages(); }},
      {"oldest", [](const Sequence& one, const Rates&) { return -double{1} * one.age_ms(); }},
      {"id",
       [](const Sequence& one, const Rates&) { return static_cast<double>(one.sequence_id()); }},
  }};
  return *sorts;
}

bool Passes(const Sequence& sequence, const std::string& filter) {
  if (filter.empty()) return true;
  const std::string all = absl::StrCat(sequence.sequence_id(), " ", sequence.label(), " ",
                                       sequence.tenant(), " ", sequence.worker_id(), " ",
                                       StateName(sequence), " ", PolicyName(sequence.cache()));
  return absl::StrContains(absl::AsciiStrToLower(all), absl::AsciiStrToLower(filter));
}

std::string Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : absl::StrFormat("%d %%", part * 100 / whole);
}

// "1 prefill, 3 decode".
std::string CountStates(const Snapshot& snapshot) {
  std::map<std::string, int> counts;
  for (const auto& one : snapshot.sequences.sequences()) {
    Sequence plain = one;
    plain.set_pinned(false);
    ++counts[StateName(plain)];
  }
  std::vector<std::string> parts;
  for (const auto& [state, count] : counts) parts.push_back(absl::StrCat(count, " ", state));
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

std::string Queues(const Snapshot& snapshot) {
  std::vector<std::string> parts;
  for (const auto& tenant : snapshot.tenants.tenants()) {
    const uint32_t waits = tenant.waiting() + tenant.parked();
    if (waits > 0) parts.push_back(absl::StrCat(TenantName(tenant.tenant()), " ", waits));
  }
  return parts.empty() ? "no tenant waits for pages"
                       : absl::StrCat("waiting for pages: ", absl::StrJoin(parts, ", "));
}

}  // namespace

std::vector<const Sequence*> TopView::Chosen(const TopData& data) const {
  std::vector<const Sequence*> chosen;
  for (const auto& one : data.now().sequences.sequences()) {
    if (Passes(one, filter_)) chosen.push_back(&one);
  }
  const Sort& sort = Sorts()[sort_];
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Sequence* a, const Sequence* b) {
    return sort.key(*a, data.rates()) < sort.key(*b, data.rates());
  });
  return chosen;
}

std::vector<std::string> TopView::Head(const TopData& data, const Terminal& terminal) const {
  const Snapshot& now = data.now();
  const Rates& rates = data.rates();
  std::vector<std::string> lines;
  std::string build = now.manager.build();
  build = build.substr(0, build.find(' '));
  size_t workers = 0;
  for (const auto& pool : now.pools.pools()) workers += pool.workers_size();
  lines.push_back(absl::StrCat("folio-manager ", build, ", up ",
                               FormatSeconds(now.manager.uptime_ms() / 1e3), ", ", workers,
                               workers == 1 ? " worker" : " workers",
                               now.manager.draining() ? ", takes no new sequences" : "",
                               paused_ ? ", paused" : "", "  ", now.date));
  for (const auto& pool : now.pools.pools()) {
    lines.push_back(absl::StrCat(
        "pool ", PoolTitle(pool), ": ", FormatCount(pool.held_pages()), " of ",
        FormatCount(pool.total_pages()), " pages held (",
        Share(pool.held_pages(), pool.total_pages()), "), ", FormatCount(pool.free_pages()),
        " free, ", FormatCount(pool.quarantined_pages()), " quarantined, ", pool.layout().model()));
  }
  if (now.pools.pools().empty()) lines.emplace_back("no pool: no worker has attached yet");
  const PoolMap map(now.pages);
  const int width = std::max(16, size_.width - 2);
  for (const std::string& row : map.Rows(MapBy::kOwner, width, 2, terminal.utf8)) {
    lines.push_back(absl::StrCat("|", row, "|"));
  }
  lines.push_back(absl::StrFormat(
      "per second: %.1f tokens prefilled, %.1f decoded, %.1f pages evicted, %.1f parked",
      rates.prompt_tokens, rates.decoded_tokens, rates.evicted_pages, rates.parked));
  lines.push_back(absl::StrCat("sequences: ", CountStates(now), "   ", Queues(now)));
  lines.emplace_back();
  return lines;
}

std::vector<std::string> TopView::Rows(const TopData& data, const Terminal& terminal) const {
  Table table({{"sequence", kRight},
               {"label"},
               {"state"},
               {"tokens/s", kRight},
               {"length", kRight},
               {"pages", kRight},
               {"evicted", kRight},
               {"age", kRight},
               {"tenant"},
               {"worker"},
               {"policy"},
               {"resident", kRight}});
  for (const Sequence* one : Chosen(data)) {
    const double rate = RateOf(*one, data.rates());
    table.Row({absl::StrCat(one->sequence_id()), Truncate(QuotePiece(one->label()), kLabelWidth),
               StateName(*one), rate > 1e17 ? "-" : absl::StrFormat("%.1f", rate),
               FormatCount(one->logical_length()), FormatCount(one->held_pages()),
               FormatCount(one->evicted_pages()), FormatSeconds(one->age_ms() / 1e3),
               Truncate(TenantName(one->tenant()), kLabelWidth), one->worker_id(),
               PolicyName(one->cache()), FormatCount(one->resident_tokens())});
  }
  Terminal plain{terminal.in, terminal.out, terminal.err, terminal.interrupts};
  std::vector<std::string> lines =
      absl::StrSplit(terminal.Printable(table.Render(plain)), '\n', absl::SkipEmpty());
  return lines;
}

std::string TopView::Foot() const {
  if (editing_) return absl::StrCat("filter: ", filter_, "_   (Enter keeps it, Esc clears it)");
  if (!note_.empty()) return note_;
  if (help_) {
    return "arrows j k select, Enter opens, Esc back, s S sort, / filter, p pause, q quit";
  }
  std::string text = absl::StrCat("sorted by: ", Sorts()[sort_].name);
  if (!filter_.empty()) absl::StrAppend(&text, "   filter: ", filter_);
  return absl::StrCat(text, "   q quit  s sort  / filter  Enter open  ? help");
}

void TopView::Scroll(std::vector<std::string>* lines, size_t height, size_t selected) {
  if (selected < top_) top_ = selected;
  if (selected >= top_ + height) top_ = selected + 1 - height;
  if (top_ + height > lines->size()) top_ = lines->size() > height ? lines->size() - height : 0;
  lines->erase(lines->begin(), lines->begin() + static_cast<ptrdiff_t>(top_));
  if (lines->size() > height) lines->resize(height);
}

std::vector<std::string> TopView::Draw(const TopData& data, const Terminal& terminal) {
  const auto width = static_cast<size_t>(std::max(size_.width, 1));
  const auto height = static_cast<size_t>(std::max(size_.height, 2));
  std::vector<std::string> lines;
  if (opened_.has_value()) {
    const size_t top = std::min(detail_top_, detail_.size());
    lines.assign(detail_.begin() + static_cast<ptrdiff_t>(top), detail_.end());
  } else {
    lines = Head(data, terminal);
    std::vector<std::string> rows = Rows(data, terminal);
    ids_.clear();
    for (const Sequence* one : Chosen(data)) ids_.push_back(one->sequence_id());
    Move(0);
    const std::string title = rows.front();
    rows.erase(rows.begin());
    const size_t room = height > lines.size() + 2 ? height - lines.size() - 2 : 1;
    Scroll(&rows, room, selected_);
    lines.push_back(terminal.Bold(Truncate(title, width)));
    for (size_t i = 0; i < rows.size(); ++i) {
      const bool chosen = top_ + i == selected_;
      const std::string text = Truncate(rows[i], width);
      lines.push_back(chosen ? absl::StrCat("\033[7m", text,
                                            std::string(width - DisplayWidth(text), ' '), "\033[0m")
                             : text);
    }
    if (ids_.empty())
      lines.emplace_back(filter_.empty() ? "No sequence is open."
                                         : "No sequence passes the filter.");
  }
  // A line with colours was cut before.
  for (std::string& line : lines) {
    if (absl::StrContains(line, '\033')) continue;
    line = Truncate(line, width);
    line.erase(line.find_last_not_of(' ') + 1);
  }
  lines.resize(height - 1);
  lines.push_back(
      Truncate(opened_.has_value() ? "arrows scroll, Esc or q: back to the list" : Foot(), width));
  return lines;
}

std::vector<std::string> TopView::DrawAll(const TopData& data, const Terminal& terminal) {
  std::vector<std::string> lines = Head(data, terminal);
  for (std::string& row : Rows(data, terminal)) lines.push_back(std::move(row));
  if (data.now().sequences.sequences().empty()) lines.emplace_back("No sequence is open.");
  return lines;
}

}  // namespace folio::cli
