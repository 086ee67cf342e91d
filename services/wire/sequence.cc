#include "services/wire/sequence.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "services/base/check.h"

namespace folio::wire {
namespace {

// Our numbers are the protocol's, so that a cast converts them. A test compares the names too.
static_assert(kNumScoreKinds == v1::ScoreKind_ARRAYSIZE,
              "services/base/score_kind.h and the protocol differ in their kinds");
static_assert(static_cast<int>(ScoreTime::kNever) == v1::SCORE_TIME_UNSPECIFIED &&
              static_cast<int>(ScoreTime::kAppend) == v1::SCORE_TIME_APPEND &&
              static_cast<int>(ScoreTime::kPromptEnd) == v1::SCORE_TIME_PROMPT_END &&
              static_cast<int>(ScoreTime::kDecision) == v1::SCORE_TIME_DECISION &&
              static_cast<int>(ScoreTime::kPageFill) == v1::SCORE_TIME_PAGE_FILL);

// The protocol's enums are open: a number that does not fit must not become another's.
template <typename Enum>
Enum FromNumber(int number) {
  return static_cast<Enum>(number >= 0 && number < UINT8_MAX ? number : UINT8_MAX);
}

struct ActionWriter {
  v1::EvictionPlan* out;
  void operator()(const CompactAction& action) const {
    v1::CompactPlan* compact = out->mutable_compact();
    for (size_t i = 0; i < action.keep.size(); ++i) {
      v1::CompactPlan::Layer* layer = compact->add_layers();
      layer->set_spare_pages(action.spare[i].value());
      layer->mutable_keep()->Reserve(static_cast<int>(action.keep[i].size()));
      for (const TokenSlot slot : action.keep[i]) layer->add_keep(slot.value());
    }
  }
  void operator()(const DropAction& action) const {
    v1::DropPagePlan* drop = out->mutable_drop_page();
    for (uint32_t layer = 0; layer < action.block.size(); ++layer) {
      if (!action.block[layer].has_value()) continue;
      drop->add_block_index(action.block[layer]->value());
      drop->add_layer(layer);
    }
    // The usual case, in which every layer drops one, needs no list.
    if (drop->layer_size() == static_cast<int>(action.block.size())) drop->clear_layer();
  }
};

CompactAction ReadCompact(const v1::CompactPlan& plan, uint32_t num_layers) {
  if (static_cast<uint32_t>(plan.layers_size()) != num_layers) return {};
  CompactAction action;
  action.keep.resize(num_layers);
  action.spare.reserve(num_layers);
  for (uint32_t i = 0; i < num_layers; ++i) {
    const v1::CompactPlan::Layer& layer = plan.layers(static_cast<int>(i));
    action.keep[i].reserve(layer.keep_size());
    for (const uint32_t slot : layer.keep()) action.keep[i].emplace_back(slot);
    action.spare.emplace_back(layer.spare_pages());
  }
  return action;
}

DropAction ReadDrop(const v1::DropPagePlan& plan, uint32_t num_layers) {
  const bool every_layer = plan.layer().empty();
  const uint32_t named = every_layer ? num_layers : static_cast<uint32_t>(plan.layer_size());
  if (static_cast<uint32_t>(plan.block_index_size()) != named) return {};
  DropAction action;
  action.block.resize(num_layers);
  for (uint32_t i = 0; i < named; ++i) {
    const uint32_t layer = every_layer ? i : plan.layer(static_cast<int>(i));
    if (layer >= num_layers || action.block[layer].has_value()) return {};
    action.block[layer] = BlockIndex(plan.block_index(static_cast<int>(i)));
  }
  return action;
}

}  // namespace

v1::ScoreNeed ToProto(const ScoreNeed& need) {
  v1::ScoreNeed out;
  out.set_kind(static_cast<v1::ScoreKind>(need.kind));
  out.set_time(static_cast<v1::ScoreTime>(need.time));
  out.set_window(need.window);
  out.set_pool(need.pool);
  return out;
}

ScoreNeed FromProto(const v1::ScoreNeed& need) {
  return {.kind = FromNumber<ScoreKind>(need.kind()),
          .time = FromNumber<ScoreTime>(need.time()),
          .window = need.window(),
          .pool = need.pool()};
}

v1::LayerRange ToProto(const LayerRange& layers) {
  v1::LayerRange out;
  out.set_begin(layers.begin);
  out.set_end(layers.end);
  return out;
}

LayerRange FromProto(const v1::LayerRange& layers) { return {layers.begin(), layers.end()}; }

v1::LayerPages ToProto(const PageList& pages) {
  v1::LayerPages out;
  out.mutable_pages()->Reserve(static_cast<int>(pages.size()));
  out.mutable_generations()->Reserve(static_cast<int>(pages.size()));
  for (const PageRef& ref : pages) {
    out.add_pages(ref.page.value());
    out.add_generations(ref.generation.value());
  }
  return out;
}

bool ReadPages(const v1::LayerPages& pages, PageList* out) {
  out->clear();
  if (pages.pages_size() != pages.generations_size()) return false;
  out->reserve(pages.pages_size());
  for (int i = 0; i < pages.pages_size(); ++i) {
    out->push_back({PageId(pages.pages(i)), Generation(pages.generations(i))});
  }
  return true;
}

v1::EvictionPlan ToProto(const Plan& plan) {
  v1::EvictionPlan out;
  out.set_sequence_id(plan.sequence.value());
  out.set_plan_epoch(plan.epoch.value());
  std::visit(ActionWriter{&out}, plan.action);
  return out;
}

Plan FromProto(const v1::EvictionPlan& plan, uint32_t num_layers) {
  Plan out = {SequenceId(plan.sequence_id()), PlanEpoch(plan.plan_epoch()), DropAction{}};
  if (plan.has_compact()) {
    out.action = ReadCompact(plan.compact(), num_layers);
  } else if (plan.has_drop_page()) {
    out.action = ReadDrop(plan.drop_page(), num_layers);
  }
  return out;
}

v1::CacheOptions ToProto(const ResolvedCache& cache) {
  v1::CacheOptions out;
  FOLIO_CHECK(out.ParseFromString(cache.options.bytes));  // FromProto or the manager wrote them
  return out;
}

ResolvedCache FromProto(const v1::CacheOptions& options) {
  ResolvedCache out;
  if (options.budget_tokens() > 0) {
    for (const uint32_t budget : options.layer_budget_tokens()) {
      out.layer_budgets.emplace_back(budget);
    }
    if (out.layer_budgets.empty()) out.layer_budgets.emplace_back(options.budget_tokens());
  }
  out.synchronous =
      !out.layer_budgets.empty() && options.eviction_mode() == v1::EVICTION_MODE_SYNCHRONOUS;
  if (!out.layer_budgets.empty() && options.compaction() == v1::COMPACTION_STREAMED) {
    out.compaction_stride = TokenCount(options.compaction_stride_tokens());
  }
  out.options.bytes = options.SerializeAsString();
  return out;
}

}  // namespace folio::wire
