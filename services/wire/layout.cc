#include "services/wire/layout.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace folio::wire {
namespace {

// No model comes near these. They keep every product far from overflow.
constexpr uint32_t kMaxHeads = 1024;
constexpr uint32_t kMaxHeadDim = 4096;
constexpr uint32_t kMaxPageTokens = 1024;
constexpr int kMaxRanks = 64;
constexpr uint32_t kMaxWindowStride = 1 << 20;

// For the texts, which the manager keeps and shows to operators.
constexpr size_t kMaxTextBytes = 512;

absl::Status InRange(absl::string_view field, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layout.", field, ": ", value, " is not from 1 to ", most));
}

absl::Status NotLong(absl::string_view field, const std::string& text, absl::string_view fix) {
  if (text.size() <= kMaxTextBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("layout.", field, ": has ", text.size(),
                                                 " bytes; at most ", kMaxTextBytes, fix));
}

std::string Shown(const std::string& text) {
  // It may be a worker's text that CheckLayout would refuse.
  if (text.size() > kMaxTextBytes) return absl::StrCat("one of ", text.size(), " bytes");
  return absl::StrCat("\"", text, "\"");
}
uint32_t Shown(uint32_t number) { return number; }

CacheGeometry GeometryOf(const v1::ModelLayout& layout, uint32_t kv_heads) {
  CacheGeometry geometry = {.num_layers = layout.num_layers(),
                            .num_kv_heads = kv_heads,
                            .head_dim = layout.head_dim(),
                            .page_tokens = layout.page_tokens()};
  geometry.windows = LayerWindows(layout.window_tokens(), layout.window_stride_tokens());
  for (const uint32_t layer : layout.window_layers()) geometry.windows.Add(layer);
  return geometry;
}

absl::Status CheckWindows(const v1::ModelLayout& layout) {
  if (layout.window_layers().empty() != (layout.window_tokens() == 0)) {
    return absl::InvalidArgumentError(
        "layout.window_layers and layout.window_tokens: set both or neither");
  }
  if (layout.window_layers().empty()) return absl::OkStatus();
  const uint32_t stride = layout.window_stride_tokens();
  if (stride == 0 || stride % layout.page_tokens() != 0 || stride > kMaxWindowStride) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.window_stride_tokens: ", stride, " is not a multiple of page_tokens ",
                     layout.page_tokens(), " up to ", kMaxWindowStride));
  }
  int64_t before = -1;
  for (const uint32_t layer : layout.window_layers()) {
    if (layer <= before || layer >= layout.num_layers()) {
      return absl::InvalidArgumentError(absl::StrCat("layout.window_layers: ", layer,
                                                     " is not ascending and below num_layers ",
                                                     layout.num_layers()));
    }
    before = layer;
  }
  return absl::OkStatus();
}

}  // namespace

void SetGeometry(const CacheGeometry& geometry, v1::ModelLayout* layout) {
  layout->set_num_layers(geometry.num_layers);
  layout->set_num_kv_heads(geometry.num_kv_heads);
  layout->set_head_dim(geometry.head_dim);
  layout->set_page_tokens(geometry.page_tokens);
  layout->set_window_tokens(geometry.windows.tokens());
  layout->set_window_stride_tokens(geometry.windows.stride());
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    if (geometry.windows.contains(layer)) layout->add_window_layers(layer);
  }
}

CacheGeometry GeometryOf(const v1::ModelLayout& layout) {
  return GeometryOf(layout, layout.num_kv_heads());
}

absl::Status CheckLayout(const v1::ModelLayout& layout) {
  for (const absl::Status& status :
       {InRange("num_layers", layout.num_layers(), kMaxLayers),
        InRange("num_kv_heads", layout.num_kv_heads(), kMaxHeads),
        InRange("head_dim", layout.head_dim(), kMaxHeadDim),
        InRange("page_tokens", layout.page_tokens(), kMaxPageTokens),
        NotLong("model", layout.model(), ", so give the worker a shorter --model_name"),
        NotLong("fingerprint", layout.fingerprint(), "")}) {
    if (!status.ok()) return status;
  }
  if (layout.data_type() != v1::DATA_TYPE_BFLOAT16) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.data_type: ", static_cast<int>(layout.data_type()),
                     " is not supported; use DATA_TYPE_BFLOAT16"));
  }
  if (layout.fingerprint().empty()) {
    return absl::InvalidArgumentError("layout.fingerprint: must be set");
  }
  if (layout.rank_kv_heads_size() > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.rank_kv_heads: has ", layout.rank_kv_heads_size(), " ranks; at most ", kMaxRanks));
  }
  for (const uint32_t heads : layout.rank_kv_heads()) {
    absl::Status status = InRange("rank_kv_heads", heads, layout.num_kv_heads());
    if (!status.ok()) return status;
  }
  return CheckWindows(layout);
}

std::vector<CacheGeometry> RankGeometries(const v1::ModelLayout& layout) {
  if (layout.rank_kv_heads().empty()) return {GeometryOf(layout)};
  std::vector<CacheGeometry> ranks;
  ranks.reserve(layout.rank_kv_heads_size());
  for (const uint32_t heads : layout.rank_kv_heads()) ranks.push_back(GeometryOf(layout, heads));
  return ranks;
}

absl::Status CompareLayouts(const v1::ModelLayout& pool, const v1::ModelLayout& worker) {
  std::vector<std::string> differences;
  const auto compare = [&](absl::string_view field, const auto& ours, const auto& theirs) {
    if (ours == theirs) return;
    differences.push_back(absl::StrCat("layout.", field, ": the pool has ", Shown(ours),
                                       ", the worker ", Shown(theirs)));
  };
  compare("num_layers", pool.num_layers(), worker.num_layers());
  compare("num_kv_heads", pool.num_kv_heads(), worker.num_kv_heads());
  compare("head_dim", pool.head_dim(), worker.head_dim());
  compare("page_tokens", pool.page_tokens(), worker.page_tokens());
  compare("data_type", static_cast<uint32_t>(pool.data_type()),
          static_cast<uint32_t>(worker.data_type()));
  compare("model", pool.model(), worker.model());
  compare("fingerprint", pool.fingerprint(), worker.fingerprint());
  compare("rank_kv_heads", absl::StrJoin(pool.rank_kv_heads(), ","),
          absl::StrJoin(worker.rank_kv_heads(), ","));
  compare("window_tokens", pool.window_tokens(), worker.window_tokens());
  compare("window_stride_tokens", pool.window_stride_tokens(), worker.window_stride_tokens());
  compare("window_layers", absl::StrJoin(pool.window_layers(), ","),
          absl::StrJoin(worker.window_layers(), ","));
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(differences, "; "));
}

}  // namespace folio::wire
