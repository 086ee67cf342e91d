// The model's rules of swap memory.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {

uint64_t CacheModel::FreeSlots() const {
  uint64_t used = 0;
  for (const auto& [id, s] : sequences) used += s.slots.size();
  for (const auto& [worker, slots] : quarantined_slots_) used += slots;
  return swap_slots_ - used;
}

std::string CacheModel::TakeOffer(SequenceId id, const std::vector<SwapOffer>& offers,
                                  size_t* next) {
  ModelSequence& s = sequences.at(id);
  uint64_t pages = 0;
  for (const ModelLayer& layer : s.layers) pages += layer.pages.size();
  const bool offered = *next < offers.size() && offers[*next].sequence == id;
  const bool due = s.abilities.swaps && s.swap == SwapUse::kNone && !s.in_prompt(geometry_) &&
                   pages <= FreeSlots() && pages > 0;
  if (offered != due) return due ? "no slots were offered" : "slots were offered";
  if (!due) return "";
  std::set<SwapSlot> taken;
  for (const auto& [other, one] : sequences) taken.insert(one.slots.begin(), one.slots.end());
  for (const SwapSlot slot : offers[*next].slots) {
    if (slot.value() >= swap_slots_) return "a slot outside the swap memory";
    if (!taken.insert(slot).second) return "a slot was offered that is taken";
  }
  s.slots = offers[*next].slots;
  s.swap = SwapUse::kOffered;
  ++*next;
  return s.slots.size() == pages ? "" : "wrong number of slots";
}

void CacheModel::SwapOut(ModelSequence& s) {
  uint64_t used = 0;
  for (ModelLayer& layer : s.layers) {
    for (const PageRef page : layer.pages) Free(page);
    layer.pages.clear();
    used += PagesFor(layer.positions.size());
  }
  s.slots.resize(used);
  s.swap = SwapUse::kOut;
  s.starved = s.asked_back = s.told = s.park_order = false;
  s.parked = true;
}

void CacheModel::DidNotClaim(const ClaimRequest& request) {
  ModelSequence& s = sequences.at(request.sequence);
  if (!Widen(s, request.abilities)) return;
  if (s.swap == SwapUse::kOut && !request.abilities.swaps) s.Forget();
  if (request.abilities.parks) DidNotUnpark(request.sequence, request.worker);
}

std::string CacheModel::CompareLayers(const ModelSequence& s,
                                      const std::vector<LayerTableInfo>& layers) const {
  if (layers.size() != s.layers.size()) return "not one table for each layer";
  const bool swapped = s.swap == SwapUse::kOut || s.swap == SwapUse::kIn;
  auto slot = s.slots.begin();
  for (size_t i = 0; i < s.layers.size(); ++i) {
    std::vector<uint32_t> kept;
    for (const PositionRange& run : layers[i].kept) {
      for (uint32_t p = run.begin.value(); p < run.end.value(); ++p) kept.push_back(p);
    }
    if (kept != s.layers[i].positions) return absl::StrCat("positions of layer ", i, " differ");
    if (layers[i].pages != s.layers[i].pages) return absl::StrCat("pages of layer ", i, " differ");
    std::vector<SwapSlot> slots;
    if (swapped) {
      const auto end = slot + static_cast<ptrdiff_t>(PagesFor(kept.size()));
      slots.assign(slot, end);
      slot = end;
    }
    if (layers[i].slots != slots) return absl::StrCat("slots of layer ", i, " differ");
  }
  return "";
}

std::string CacheModel::CompareSwap(const ModelSequence& s, const Unparked& unparked) const {
  if (s.swap != SwapUse::kIn) {
    return unparked.swapped.empty() ? "" : "a sequence goes on that was not swapped";
  }
  if (unparked.logical_length.value() != s.logical) return "it goes on at another length";
  if (unparked.plan.has_value() != s.plan.has_value() ||
      (s.plan.has_value() && unparked.plan->epoch.value() != s.plan->epoch)) {
    return "it goes on with another plan";
  }
  return CompareLayers(s, unparked.swapped);
}

std::string CacheModel::CompareSlots(const PoolInfo& pool) const {
  uint64_t quarantined = 0;
  for (const auto& [worker, slots] : quarantined_slots_) quarantined += slots;
  const bool same = pool.swap_slots == swap_slots_ && pool.free_swap_slots == FreeSlots() &&
                    pool.quarantined_swap_slots == quarantined;
  return same ? "" : "wrong number of swap slots";
}

}  // namespace folio::cache
