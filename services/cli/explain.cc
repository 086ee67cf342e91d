// folioctl explain shows the tokens or pages that a policy would evict from a sequence now.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/options.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

struct ExplainFlags {
  uint64_t id = 0;
  CacheFlags cache;
  bool scores = false;
};

uint32_t CountTokens(const folio::v1::ExplainedLayer& layer) {
  uint32_t count = 0;
  for (const auto& range : layer.drop_tokens()) count += range.end() - range.begin();
  return count;
}

// "page 4", "1,203 tokens: 17-18, 24, ..." or "nothing".
std::string Loses(const folio::v1::ExplainedLayer& layer) {
  if (layer.has_drop_block()) return absl::StrCat("page ", layer.drop_block());
  if (layer.drop_tokens().empty()) return "nothing";
  constexpr int kShown = 4;
  std::vector<std::string> ranges;
  for (const auto& range : layer.drop_tokens()) {
    if (static_cast<int>(ranges.size()) == kShown) {
      ranges.emplace_back("...");
      break;
    }
    ranges.push_back(range.end() == range.begin() + 1
                         ? absl::StrCat(range.begin())
                         : absl::StrCat(range.begin(), "-", range.end() - 1));
  }
  return absl::StrCat(FormatCount(CountTokens(layer)), " tokens: ", absl::StrJoin(ranges, ", "));
}

// The lowest score that stays is shown with the evicted ones and the range, which together tell how
// close the decision was.
std::string Scores(const folio::v1::ExplainedLayer& layer, bool all) {
  if (layer.scores().empty()) return "-";
  if (all) {
    return absl::StrJoin(layer.scores(), " ", [](std::string* out, float score) {
      absl::StrAppendFormat(out, "%.4g", score);
    });
  }
  const auto [least, most] = std::minmax_element(layer.scores().begin(), layer.scores().end());
  std::string text = absl::StrFormat("%.4g to %.4g", *least, *most);
  if (layer.has_drop_block() && static_cast<int>(layer.drop_block()) < layer.scores_size()) {
    absl::StrAppendFormat(&text, ", goes %.4g", layer.scores(static_cast<int>(layer.drop_block())));
  }
  return text;
}

std::string RenderExplanation(const folio::v1::ExplainEvictionResponse& explained,
                              const ExplainFlags& flags, const Terminal& terminal) {
  Table facts = Table::Facts();
  facts.Row({"cache", DescribeCache(explained.cache())});
  facts.Row({"due", explained.due() ? "now: the sequence is over this budget"
                                    : "not yet: shows the eviction if a page filled now"});
  Table table({{"layer", Table::Align::kRight},
               {"resident", Table::Align::kRight},
               {"budget", Table::Align::kRight},
               {"would lose"},
               {"scores"}});
  for (int layer = 0; layer < explained.layers_size(); ++layer) {
    const auto& one = explained.layers(layer);
    table.Row({absl::StrCat(layer), FormatCount(one.resident_tokens()),
               one.budget_tokens() == 0 ? "-" : FormatCount(one.budget_tokens()), Loses(one),
               Scores(one, flags.scores)});
  }
  return absl::StrCat(facts.Render(terminal), "\n", table.Render(terminal));
}

absl::Status Explain(const ExplainFlags& flags, bool own, Context& context) {
  folio::v1::ExplainEvictionRequest request;
  request.set_sequence_id(flags.id);
  if (!own) {
    auto cache = flags.cache.ToProto();
    if (!cache.ok()) return cache.status();
    *request.mutable_cache() = *std::move(cache);
  }
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto explained = (*client)->ExplainEviction(request, context.Call());
  if (!explained.ok()) return explained.status();
  if (context.structured()) return context.Print(*explained);
  context.terminal.out << RenderExplanation(*explained, flags, context.terminal);
  return absl::OkStatus();
}

}  // namespace

void AddExplain(CLI::App& root, Context& context) {
  auto flags = std::make_shared<ExplainFlags>();
  CLI::App* command =
      AddCommand(root, "explain",
                 "Show what a policy would evict from a sequence now, without evicting (manager)",
                 "  folioctl explain 12\n"
                 "  folioctl explain 12 --policy streaming_llm --budget 256\n"
                 "  folioctl explain 12 --scores --output json");
  command->add_option("id", flags->id, "The sequence's id, from folioctl sequences")->required();
  command->add_flag("--scores", flags->scores, "List every score (high scores are kept)");
  flags->cache.Add(*command);
  command->callback([flags, command, &context] {
    // Without any of these flags the sequence's own settings apply.
    bool own = true;
    for (const char* name : {"--policy", "--budget", "--schedule", "--sink", "--recent", "--layers",
                             "--prompt_share", "--protect_ends", "--segments"}) {
      own = own && command->count(name) == 0;
    }
    context.action = [flags, own, &context] { return Explain(*flags, own, context); };
  });
}

}  // namespace folio::cli
