#include "services/model/slot_table.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/ops.h"
#include "services/common/check.h"

namespace folio::model {

SlotTable::SlotTable(const kernels::PoolView& pool, kernels::ScoreKind score)
    : pool_(pool), score_(score), layers_(pool.geometry.num_layers) {}

void SlotTable::Extend(const std::vector<std::vector<PageRef>>& pages) {
  FOLIO_CHECK(pages.size() == layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    for (const PageRef& ref : pages[l]) {
      FOLIO_CHECK(ref.page.value() < pool_.num_pages);
      layers_[l].pages.push_back(ref.page.value());
      layers_[l].generations.push_back(ref.generation);
    }
  }
}

void SlotTable::Restore(const std::vector<std::vector<PageRef>>& pages,
                        const std::vector<std::vector<PositionRun>>& positions) {
  FOLIO_CHECK(positions.size() == layers_.size());
  for (const Layer& layer : layers_) FOLIO_CHECK(layer.pages.empty());
  Extend(pages);
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    for (const PositionRun& run : positions[l]) {
      FOLIO_CHECK(run.begin < run.end);
      layer.resident += (run.end - run.begin).value();
      if (!keeps_positions()) continue;
      for (Position at = run.begin; at < run.end; ++at) layer.positions.push_back(at.value());
    }
    FOLIO_CHECK(layer.resident <= layer.pages.size() * pool_.geometry.page_tokens);
  }
}

void SlotTable::DropBlocks(const std::vector<std::optional<BlockIndex>>& block) {
  FOLIO_CHECK(block.size() == layers_.size());
  const uint32_t page_tokens = pool_.geometry.page_tokens;
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    if (!block[l].has_value()) continue;
    const uint32_t at = block[l]->value();
    FOLIO_CHECK(at < layer.resident / page_tokens);
    layer.pages.erase(layer.pages.begin() + at);
    layer.generations.erase(layer.generations.begin() + at);
    layer.resident -= page_tokens;
    if (!keeps_positions()) continue;
    const auto first = layer.positions.begin() + size_t{at} * page_tokens;
    layer.positions.erase(first, first + page_tokens);
  }
}

uint32_t SlotTable::free_tokens() const {
  uint32_t free = std::numeric_limits<uint32_t>::max();
  for (const Layer& layer : layers_) {
    const auto room = static_cast<uint32_t>(layer.pages.size() * pool_.geometry.page_tokens);
    free = std::min(free, room - layer.resident);
  }
  return free;
}

PageRef SlotTable::NewestPage(LayerIndex index) const {
  FOLIO_CHECK(index.value() < layers_.size());
  const Layer& layer = layers_[index.value()];
  FOLIO_CHECK(layer.resident > 0);
  const uint32_t block = (layer.resident - 1) / pool_.geometry.page_tokens;
  return {PageId(layer.pages[block]), layer.generations[block]};
}

// FNV-1a over 32-bit words: the same in every process.
uint64_t SlotTable::Digest() const {
  uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&digest](uint32_t word) { digest = (digest ^ word) * 0x100000001b3; };
  add(static_cast<uint32_t>(score_));
  for (const Layer& layer : layers_) {
    add(layer.resident);
    add(static_cast<uint32_t>(layer.pages.size()));
    for (const uint32_t page : layer.pages) add(page);
    for (const Generation generation : layer.generations) add(generation.value());
    for (const uint32_t position : layer.positions) add(position);
  }
  return digest;
}

std::vector<uint32_t> SlotTable::Survivors(LayerIndex index,
                                           const std::vector<SlotIndex>& keep) const {
  const Layer& layer = layers_[index.value()];
  std::vector<uint32_t> slots;
  slots.reserve(keep.size());
  for (const SlotIndex slot : keep) {
    FOLIO_CHECK(slot.value() < layer.resident);
    FOLIO_CHECK(slots.empty() || slot.value() > slots.back());
    slots.push_back(slot.value());
  }
  return slots;
}

void SlotTable::Gather(LayerIndex index, const std::vector<SlotIndex>& keep) const {
  kernels::cpu::CompactLayer(pool_, pages(index), Survivors(index, keep));
}

void SlotTable::Shrink(const std::vector<std::vector<SlotIndex>>& keep,
                       const std::vector<uint32_t>& spare) {
  FOLIO_CHECK(keep.size() == layers_.size() && spare.size() == layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const auto tokens = static_cast<uint32_t>(keep[l].size());
    const size_t pages = size_t{pool_.geometry.pages_for(tokens)} + spare[l];
    FOLIO_CHECK(tokens <= layer.resident && pages <= layer.pages.size());
    layer.pages.resize(pages);
    layer.generations.resize(pages);
    layer.resident = tokens;
    if (!keeps_positions()) continue;
    for (uint32_t i = 0; i < tokens; ++i) {
      layer.positions[i] = layer.positions[keep[l][i].value()];
    }
    layer.positions.resize(tokens);
  }
}

void SlotTable::Place(LayerIndex index, Position first, uint32_t rows,
                      kernels::AppendSlot* out) const {
  const Layer& layer = layers_[index.value()];
  const uint32_t page_tokens = pool_.geometry.page_tokens;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t slot = layer.resident + i;
    FOLIO_CHECK(slot / page_tokens < layer.pages.size());
    out[i] = {layer.pages[slot / page_tokens], slot % page_tokens, first.value() + i, score_};
  }
}

kernels::AttentionRun SlotTable::Run(LayerIndex index, uint32_t first_row, uint32_t rows) const {
  const Layer& layer = layers_[index.value()];
  return {first_row, rows, layer.pages.data(), layer.resident + rows};
}

void SlotTable::ListResident(std::vector<kernels::ResidentRun>& out) const {
  for (const Layer& layer : layers_) out.push_back({layer.pages.data(), layer.resident});
}

void SlotTable::Advance(Position first, uint32_t rows) {
  for (Layer& layer : layers_) {
    layer.resident += rows;
    if (!keeps_positions()) continue;
    for (uint32_t i = 0; i < rows; ++i) layer.positions.push_back(first.value() + i);
  }
}

void SlotTable::ListUnrotated(bool newest, std::vector<kernels::UnrotatedRun>& out) const {
  FOLIO_CHECK(keeps_positions());
  const uint32_t page_tokens = pool_.geometry.page_tokens;
  for (const Layer& layer : layers_) {
    kernels::UnrotatedRun run = {
        .pages = layer.pages.data(), .positions = layer.positions.data(), .tokens = layer.resident};
    if (newest) {
      if (run.tokens % page_tokens != 0) continue;
      const uint32_t pages = run.tokens / page_tokens - 1;
      run.first = run.tokens - page_tokens;
      run.stride = page_tokens * std::max(1U, (pages + kMostSamples - 1) / kMostSamples);
    }
    out.push_back(run);
  }
}

}  // namespace folio::model
