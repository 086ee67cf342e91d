#include "services/model/cuda_tables.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace folio::model {

uint32_t& CudaTables::held(SlotId slot, LayerIndex layer) {
  const size_t at = size_t{slot.value()} * layers_ + layer.value();
  if (at >= held_.size()) held_.resize((size_t{slot.value()} + 1) * layers_);
  return held_[at];
}

uint32_t* CudaTables::Place(SlotId slot, LayerIndex layer) const {
  const size_t row = size_t{slot.value() % kSlabSlots} * layers_ + layer.value();
  return slabs_[slot.value() / kSlabSlots].as<uint32_t>() + row * most_pages_;
}

void CudaTables::Reset(SlotId slot) {
  for (uint32_t layer = 0; layer < layers_; ++layer) held(slot, LayerIndex(layer)) = 0;
}

void CudaTables::Cut(SlotId slot, LayerIndex layer, uint32_t pages) {
  held(slot, layer) = std::min(held(slot, layer), pages);
}

absl::Status CudaTables::Sync(SlotId slot, const SlotTable& table, kernels::cuda::Uploads& uploads,
                              std::vector<kernels::cuda::TableWrite>& writes) {
  while (slabs_.size() <= slot.value() / kSlabSlots) {
    auto slab = memory_.Allocate(
        size_t{kSlabSlots} * layers_ * most_pages_ * sizeof(uint32_t),
        absl::StrCat("page tables of sequences ", slabs_.size() * kSlabSlots, " and up"));
    if (!slab.ok()) return slab.status();
    slabs_.push_back(*std::move(slab));
  }
  for (uint32_t i = 0; i < layers_; ++i) {
    const LayerIndex layer(i);
    const std::vector<uint32_t>& pages = table.pages(layer);
    if (pages.size() > most_pages_) {
      return absl::InternalError(absl::StrCat(
          "a sequence has ", pages.size(), " pages in one layer, its context fills ", most_pages_));
    }
    uint32_t& right = held(slot, layer);
    if (right >= pages.size()) continue;
    const auto news = uploads.Put(absl::MakeConstSpan(pages).subspan(right));
    writes.push_back({Place(slot, layer) + right, news.data, news.size});
    right = static_cast<uint32_t>(pages.size());
  }
  return absl::OkStatus();
}

}  // namespace folio::model
