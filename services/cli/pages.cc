// folioctl pages draws a map of a pool: who has each page.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/pool_map.h"

namespace folio::cli {
namespace {

struct PagesFlags {
  std::string by = "state";
  int rows = 12;
  bool layers = false;
  std::string pool;
};

absl::Status ShowPages(const PagesFlags& flags, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  folio::v1::ListPagesRequest request;
  request.set_layers(flags.layers);
  request.set_scores(flags.by == "score");
  request.set_pool(flags.pool);
  const auto runs = (*client)->ListPages(request, context.Call());
  if (!runs.ok()) return runs.status();
  const Terminal& terminal = context.terminal;
  std::ostream& out = terminal.out;
  if (context.structured()) {
    folio::v1::ListPagesResponse all;
    all.mutable_runs()->Add(runs->begin(), runs->end());
    return context.Print(all);
  }
  const PoolMap map(*runs);
  if (map.counts().total == 0) {
    out << "No pool: no worker has attached yet.\n";
    return absl::OkStatus();
  }
  const MapBy by = flags.by == "owner"   ? MapBy::kOwner
                   : flags.by == "score" ? MapBy::kScore
                                         : MapBy::kState;
  const int width = std::clamp(terminal.width - 2, 16, 200);
  const PageCounts& counts = map.counts();
  out << FormatCount(counts.total) << " pages: " << FormatCount(counts.held) << " held, "
      << FormatCount(counts.free) << " free, " << FormatCount(counts.quarantined)
      << " quarantined\n\n";
  for (const std::string& row : map.Rows(by, width, flags.rows, terminal.utf8)) {
    out << "|" << row << "|\n";
  }
  const uint64_t each = map.PagesOfACharacter(width, flags.rows);
  out << "\none character: " << FormatCount(each, "page") << ", in their order\n";
  for (const std::string& line : map.Legend(by, terminal.utf8)) out << line << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddPages(CLI::App& root, Context& context) {
  auto flags = std::make_shared<PagesFlags>();
  CLI::App* command = AddCommand(
      root, "pages", "Map of a pool by the state, the owner or the scores of its pages (manager)",
      "  folioctl pages\n"
      "  folioctl pages --by owner --rows 30\n"
      "  folioctl pages --layers --output json");
  command->add_option("--by", flags->by, "Draw the state, the owner or the score of the pages")
      ->check(CLI::IsMember({"state", "owner", "score"}))
      ->capture_default_str();
  command->add_option("--rows", flags->rows, "Lines of the map, at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--layers", flags->layers, "Tell layers too, with --output json or yaml");
  command->add_option("--pool", flags->pool,
                      "Show this pool of a manager that has several, and not one after the other");
  SetAction(command, ShowPages, flags, context);
}

}  // namespace folio::cli
