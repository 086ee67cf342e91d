// Layouts and what operators see; the other half of convert.h.
#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/manager/convert.h"

namespace folio::manager {
namespace {

// No model comes near these; they keep every product far from overflow.
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxHeads = 1024;
constexpr uint32_t kMaxHeadDim = 4096;
constexpr uint32_t kMaxPageTokens = 1024;
constexpr int kMaxRanks = 64;

absl::Status InRange(absl::string_view field, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layout.", field, ": ", value, " is not from 1 to ", most));
}

CacheGeometry WholeGeometry(const v1::ModelLayout& layout) {
  return {.num_layers = layout.num_layers(),
          .num_kv_heads = layout.num_kv_heads(),
          .head_dim = layout.head_dim(),
          .page_tokens = layout.page_tokens()};
}

v1::SequenceState StateToProto(cache::SequenceState state) {
  switch (state) {
    case cache::SequenceState::kPrefill:
      return v1::SEQUENCE_STATE_PREFILL;
    case cache::SequenceState::kDecode:
      return v1::SEQUENCE_STATE_DECODE;
    case cache::SequenceState::kEvicting:
      return v1::SEQUENCE_STATE_EVICTING;
    case cache::SequenceState::kOrphaned:
      return v1::SEQUENCE_STATE_ORPHANED;
  }
  return v1::SEQUENCE_STATE_UNSPECIFIED;
}

uint32_t Milliseconds(absl::Duration time) {
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Milliseconds(time), 0, UINT32_MAX));
}

std::string Shown(const std::string& text) { return absl::StrCat("\"", text, "\""); }
uint32_t Shown(uint32_t number) { return number; }

void WriteRanges(const std::vector<cache::PositionRange>& ranges,
                 google::protobuf::RepeatedPtrField<v1::PositionRange>* out) {
  for (const cache::PositionRange& range : ranges) {
    v1::PositionRange* to = out->Add();
    to->set_begin(range.begin.value());
    to->set_end(range.end.value());
  }
}

}  // namespace

absl::StatusOr<CacheGeometry> GeometryFromProto(const v1::ModelLayout& layout) {
  for (const absl::Status& status :
       {InRange("num_layers", layout.num_layers(), kMaxLayers),
        InRange("num_kv_heads", layout.num_kv_heads(), kMaxHeads),
        InRange("head_dim", layout.head_dim(), kMaxHeadDim),
        InRange("page_tokens", layout.page_tokens(), kMaxPageTokens)}) {
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
  return WholeGeometry(layout);
}

std::vector<CacheGeometry> RankGeometries(const v1::ModelLayout& layout) {
  const CacheGeometry whole = WholeGeometry(layout);
  if (layout.rank_kv_heads().empty()) return {whole};
  std::vector<CacheGeometry> ranks;
  for (const uint32_t heads : layout.rank_kv_heads()) {
    ranks.push_back(whole);
    ranks.back().num_kv_heads = heads;
  }
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
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrJoin(differences, "; "));
}

v1::Device DeviceToProto(const DeviceState& state) {
  v1::Device out;
  out.set_device(state.device);
  out.set_uuid(state.uuid);
  out.set_name(state.name);
  if (state.total_bytes.has_value()) out.set_total_bytes(*state.total_bytes);
  if (state.free_bytes.has_value()) out.set_free_bytes(*state.free_bytes);
  for (const Rank rank : state.ranks) out.add_ranks(rank.value());
  return out;
}

v1::Sequence SequenceToProto(const cache::SequenceInfo& info, const CacheGeometry& geometry) {
  v1::Sequence out;
  out.set_sequence_id(info.id.value());
  out.set_worker_id(WorkerName(info.worker));
  out.set_label(info.label);
  out.set_state(StateToProto(info.state));
  *out.mutable_cache() = CacheConfigToProto(info.cache);
  out.set_prompt_tokens(info.prompt_tokens.value());
  out.set_max_new_tokens(info.max_new_tokens.value());
  out.set_logical_length(info.logical_length.value());
  out.set_resident_tokens(info.resident.value());
  out.set_held_pages(info.held_pages.value());
  out.set_reserved_pages(info.reserved_pages.value());
  out.set_held_bytes(uint64_t{info.held_pages.value()} * geometry.page_bytes());
  out.set_evicted_tokens(info.evicted_tokens.value());
  out.set_evicted_pages(info.evicted_pages.value());
  out.set_plan_epoch(info.plan_epoch.value());
  out.set_age_ms(Milliseconds(info.age));
  out.set_orphan_ms(Milliseconds(info.orphan_left));
  out.set_lease_epoch(info.lease_epoch.value());
  return out;
}

v1::GetSequenceResponse DetailToProto(const cache::SequenceDetail& detail,
                                      const CacheGeometry& geometry) {
  v1::GetSequenceResponse out;
  *out.mutable_sequence() = SequenceToProto(detail.info, geometry);
  for (const cache::LayerTableInfo& table : detail.layers) {
    v1::LayerTable* layer = out.add_layers();
    layer->set_resident_tokens(table.resident.value());
    for (const PageRef& ref : table.pages) {
      v1::PageRef* page = layer->add_pages();
      page->set_page(ref.page.value());
      page->set_generation(ref.generation.value());
    }
    WriteRanges(table.kept, layer->mutable_kept());
  }
  return out;
}

v1::ExplainEvictionResponse ExplanationToProto(const cache::Explanation& explanation) {
  v1::ExplainEvictionResponse out;
  *out.mutable_cache() = CacheConfigToProto(explanation.cache);
  out.set_due(explanation.due);
  for (const cache::ExplainedLayer& from : explanation.layers) {
    v1::ExplainedLayer* layer = out.add_layers();
    layer->set_budget_tokens(from.budget.value());
    layer->set_resident_tokens(from.resident.value());
    WriteRanges(from.drop, layer->mutable_drop_tokens());
    if (from.block.has_value()) layer->set_drop_block(from.block->value());
    layer->mutable_scores()->Add(from.scores.begin(), from.scores.end());
  }
  return out;
}

}  // namespace folio::manager
