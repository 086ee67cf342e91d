#include "services/model/cuda/device_tables.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace folio::model {

uint32_t* DeviceTables::Place(SequenceSlot slot, LayerIndex layer) const {
  const size_t row = size_t{slot.value() % kSlabSlots} * layers_ + layer.value();
  return slabs_[slot.value() / kSlabSlots].as<uint32_t>() + row * max_pages_;
}

absl::Status DeviceTables::Sync(SequenceSlot slot, BlockTables& table,
                                kernels::cuda::Uploads& uploads,
                                std::vector<kernels::cuda::TableWrite>& writes) {
  while (slabs_.size() <= slot.value() / kSlabSlots) {
    auto slab = memory_.Allocate(
        size_t{kSlabSlots} * layers_ * max_pages_ * sizeof(uint32_t),
        absl::StrCat("page tables of sequences ", slabs_.size() * kSlabSlots, " and up"));
    if (!slab.ok()) return slab.status();
    slabs_.push_back(*std::move(slab));
  }
  for (uint32_t i = 0; i < layers_; ++i) {
    const LayerIndex index(i);
    const BlockTables::Layer& layer = table.layer(index);
    if (layer.pages.size() > max_pages_) {
      return absl::InternalError(absl::StrCat("a sequence has ", layer.pages.size(),
                                              " pages in one layer, its context fills ",
                                              max_pages_));
    }
    if (layer.mirrored >= layer.pages.size()) continue;
    const auto changed = uploads.Put(absl::MakeConstSpan(layer.pages).subspan(layer.mirrored));
    writes.push_back({Place(slot, index) + layer.mirrored, changed.data, changed.size});
    table.SetMirrored(index);
  }
  return absl::OkStatus();
}

}  // namespace folio::model
