#include "services/worker/engine/host_swap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::worker {

void HostSwap::OnOffer(const SwapOffer& offer) {
  const bool inside =
      std::all_of(offer.slots.begin(), offer.slots.end(),
                  [this](const SwapSlot slot) { return slot.value() < num_slots_; });
  if (inside) offers_[offer.sequence] = {offer.slots, false};
}

bool HostSwap::Waits(SequenceId sequence) const {
  const auto it = offers_.find(sequence);
  return it != offers_.end() && !it->second.copied;
}

uint64_t HostSwap::CopyOut(SequenceId sequence, const model::BlockTables& table,
                           uint64_t enqueued) {
  Offered& offered = offers_.at(sequence);
  model::PageSwaps swaps{.out = true, .pages = {}};
  const CacheGeometry& geometry = table.geometry();
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    const std::vector<uint32_t>& pages = table.layer(LayerIndex(layer)).pages;
    const uint32_t with_tokens = geometry.pages_for(table.resident(LayerIndex(layer)));
    for (uint32_t block = 0; block < with_tokens; ++block) {
      if (swaps.pages.size() == offered.slots.size()) {  // too few: it is computed again
        offers_.erase(sequence);
        return enqueued;
      }
      swaps.pages.push_back({PageId(pages[block]), offered.slots[swaps.pages.size()]});
    }
  }
  executor_->Swap(swaps);
  offered.copied = true;
  return DoneAfter(enqueued);
}

bool HostSwap::Take(SequenceId sequence) {
  const auto it = offers_.find(sequence);
  if (it == offers_.end()) return false;
  const bool copied = it->second.copied;
  offers_.erase(it);
  return copied;
}

absl::Status HostSwap::Validate(const std::vector<ClaimedLayer>& layers,
                                const CacheGeometry& geometry) const {
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const std::vector<SwapSlot>& slots = layers[layer].slots;
    uint32_t tokens = 0;
    for (const PositionRange& run : layers[layer].positions) {
      tokens += (run.end - run.begin).value();
    }
    const bool fit = slots.size() == geometry.pages_for(tokens) &&
                     slots.size() <= layers[layer].pages.size() &&
                     std::all_of(slots.begin(), slots.end(),
                                 [this](const SwapSlot slot) { return slot.value() < num_slots_; });
    if (fit) continue;
    return absl::InternalError(absl::StrCat("the manager's record does not fit: ", slots.size(),
                                            " swap slots of layer ", layer, " for ", tokens,
                                            " tokens, of ", num_slots_, " slots in all"));
  }
  return absl::OkStatus();
}

uint64_t HostSwap::CopyIn(const std::vector<ClaimedLayer>& layers, uint64_t enqueued) {
  model::PageSwaps swaps;
  for (const ClaimedLayer& layer : layers) {
    for (size_t block = 0; block < layer.slots.size(); ++block) {
      swaps.pages.push_back({layer.pages[block].page, layer.slots[block]});
    }
  }
  executor_->Swap(swaps);
  return DoneAfter(enqueued);
}

}  // namespace folio::worker
