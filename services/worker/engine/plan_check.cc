#include "services/worker/engine/plan_check.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

namespace folio::worker {
namespace {

class PlanCheck {
 public:
  PlanCheck(Phase phase, const model::BlockTables& table) : phase_(phase), table_(table) {}

  absl::Status operator()(const CompactAction& action) const {
    if (Fits(action)) return absl::OkStatus();
    return absl::InternalError("the manager's compaction does not fit the sequence");
  }
  absl::Status operator()(const DropAction& action) const {
    if (Fits(action)) return absl::OkStatus();
    return absl::InternalError("the manager's plan does not fit the sequence");
  }

 private:
  bool Fits(const CompactAction& action) const {
    const CacheGeometry& geometry = table_.geometry();
    if (phase_ != Phase::kAwaitPlan || action.keep.size() != geometry.num_layers ||
        action.spare.size() != geometry.num_layers) {
      return false;
    }
    for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
      const std::vector<TokenSlot>& keep = action.keep[layer];
      // Each is above the one before and the last is resident, so all of them are.
      if (keep.empty() || keep.back().value() >= table_.resident(LayerIndex(layer)) ||
          std::adjacent_find(keep.begin(), keep.end(), std::greater_equal<>()) != keep.end()) {
        return false;
      }
      const uint64_t pages_left = uint64_t{geometry.pages_for(static_cast<uint32_t>(keep.size()))} +
                                  action.spare[layer].value();
      if (pages_left > table_.pages(LayerIndex(layer))) return false;
    }
    return true;
  }

  bool Fits(const DropAction& action) const {
    const CacheGeometry& geometry = table_.geometry();
    const bool decodes = phase_ == Phase::kDecode || phase_ == Phase::kAwaitReply;
    if (!decodes || action.block.size() != geometry.num_layers) return false;
    bool any = false;
    for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
      const std::optional<BlockIndex>& block = action.block[layer];
      if (!block.has_value()) continue;
      if (block->value() >= table_.resident(LayerIndex(layer)) / geometry.page_tokens) return false;
      any = true;
    }
    return any;
  }

  const Phase phase_;
  const model::BlockTables& table_;
};

}  // namespace

bool PagesFit(const PageList& pages, uint32_t num_pages) {
  return std::all_of(pages.begin(), pages.end(),
                     [&](const PageRef& ref) { return ref.page.value() < num_pages; });
}

bool PagesFit(const LayerPageLists& pages, uint32_t num_layers, uint32_t num_pages) {
  return pages.size() == num_layers &&
         std::all_of(pages.begin(), pages.end(),
                     [&](const PageList& layer) { return PagesFit(layer, num_pages); });
}

absl::Status ValidatePlan(const Plan& plan, Phase phase, const model::BlockTables& table) {
  return std::visit(PlanCheck(phase, table), plan.action);
}

}  // namespace folio::worker
