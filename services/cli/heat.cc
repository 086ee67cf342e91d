#include "services/cli/heat.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/format.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

constexpr int kMostLayers = 8;
constexpr int kMostPlans = 8;

// The means of `parts` stretches of equal length.
std::vector<float> Means(absl::Span<const float> scores, size_t parts) {
  std::vector<float> means;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * scores.size() / parts;
    const size_t end = (part + 1) * scores.size() / parts;
    float sum = 0;
    for (size_t i = begin; i < end; ++i) sum += scores[i];
    const float mean = sum / static_cast<float>(end - begin);
    means.push_back(std::isnan(mean) ? -std::numeric_limits<float>::infinity() : mean);
  }
  return means;
}

// "16", or "12 to 16" if layers differ.
std::string Between(uint32_t least, uint32_t most) {
  if (least == most) return FormatCount(least);
  return absl::StrCat(FormatCount(least), " to ", FormatCount(most));
}

struct Extent {
  uint32_t least = UINT32_MAX, most = 0;  // tokens of a layer
  uint32_t begin = UINT32_MAX, end = 0;   // positions
};

Extent ExtentOf(const folio::v1::PastPlan& plan) {
  Extent extent;
  for (const auto& loss : plan.losses()) {
    extent.least = std::min(extent.least, loss.tokens());
    extent.most = std::max(extent.most, loss.tokens());
    extent.begin = std::min(extent.begin, loss.begin());
    extent.end = std::max(extent.end, loss.end());
  }
  return extent;
}

}  // namespace

std::string HeatStrip(absl::Span<const float> scores, int width, bool utf8) {
  static constexpr std::array<const char*, 8> kBlocks = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr std::array<const char*, 8> kAscii = {".", ":", "-", "=", "+", "*", "%", "#"};
  const auto& ramp = utf8 ? kBlocks : kAscii;
  if (scores.empty()) return "";
  const size_t parts = std::min(scores.size(), static_cast<size_t>(std::max(width, 1)));
  const std::vector<float> means = Means(scores, parts);
  std::vector<float> sorted = means;
  std::sort(sorted.begin(), sorted.end());
  std::string strip;
  for (const float mean : means) {
    const auto below = std::lower_bound(sorted.begin(), sorted.end(), mean) - sorted.begin();
    strip += ramp[static_cast<size_t>(below) * ramp.size() / parts];
  }
  return strip;
}

std::string RenderHeat(const folio::v1::ExplainEvictionResponse& explained,
                       const Terminal& terminal) {
  std::vector<int> layers;
  for (int layer = 0; layer < explained.layers_size(); ++layer) {
    if (!explained.layers(layer).scores().empty()) layers.push_back(layer);
  }
  if (layers.empty()) return "";
  const int shown = std::min(kMostLayers, static_cast<int>(layers.size()));
  const int width = std::clamp(terminal.width - 24, 16, 100);
  Table table({{"layer", kRight}, {"scores in the order of the text"}, {"of"}});
  for (int i = 0; i < shown; ++i) {
    const size_t at = shown == 1 ? 0 : static_cast<size_t>(i) * (layers.size() - 1) / (shown - 1);
    const auto& layer = explained.layers(layers[at]);
    const bool tokens = !layer.has_drop_block() && layer.drop_tokens_size() > 0;
    table.Row({absl::StrCat(layers[at]),
               absl::StrCat("|", HeatStrip(layer.scores(), width, terminal.utf8), "|"),
               absl::StrCat(FormatCount(layer.scores_size()), tokens ? " tokens" : " pages")});
  }
  return absl::StrCat("\n", table.Render(terminal), "the rank within a layer, from ",
                      terminal.utf8 ? "▁" : ".", " (goes first) to ", terminal.utf8 ? "█" : "#",
                      " (stays)\n");
}

std::string RenderHistory(const folio::v1::GetSequenceResponse& detail, bool all,
                          const Terminal& terminal) {
  if (detail.plans().empty()) return "";
  Table table({{"plan", kRight},
               {"carried out", kRight},
               {"at length", kRight},
               {"kind"},
               {"tokens of a layer", kRight},
               {"layers", kRight},
               {"positions"},
               {"pages freed", kRight}});
  const int first = all ? 0 : std::max(0, detail.plans_size() - kMostPlans);
  for (int i = first; i < detail.plans_size(); ++i) {
    const auto& plan = detail.plans(i);
    const Extent extent = ExtentOf(plan);
    const bool lost = !plan.losses().empty();
    table.Row({absl::StrCat(plan.plan_epoch()),
               absl::StrCat(FormatSeconds(plan.ago_ms() / 1e3), " ago"),
               FormatCount(plan.logical_length()), plan.compaction() ? "compaction" : "page",
               lost ? Between(extent.least, extent.most) : "0", absl::StrCat(plan.losses_size()),
               lost ? absl::StrCat(extent.begin, " to ", extent.end - 1) : "-",
               FormatCount(plan.freed_pages())});
  }
  std::string text = absl::StrCat("\n", table.Render(terminal));
  if (first > 0) {
    absl::StrAppend(&text, first, " older ones are known; --history lists them too\n");
  }
  return text;
}

}  // namespace folio::cli
