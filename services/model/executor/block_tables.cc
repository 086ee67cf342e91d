#include "services/model/executor/block_tables.h"

#include <algorithm>
#include <limits>

#include "services/base/check.h"

namespace folio::model {

BlockTables::BlockTables(const CacheGeometry& geometry, uint32_t num_pages, ScoreKind score)
    : geometry_(geometry),
      num_pages_(num_pages),
      score_(score),
      keeps_positions_(score == ScoreKind::kUnrotatedDifference),
      layers_(geometry.num_layers) {}

const BlockTables::Layer& BlockTables::layer(LayerIndex layer) const {
  FOLIO_CHECK(layer.value() < layers_.size());
  return layers_[layer.value()];
}

void BlockTables::Extend(const LayerPageLists& pages, bool clear) {
  FOLIO_CHECK(pages.size() == layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const bool all_clear = !clear && layer.cleared == layer.pages.size();
    for (const PageRef& ref : pages[l]) {
      FOLIO_CHECK(ref.page.value() < num_pages_);
      layer.pages.push_back(ref.page.value());
      layer.generations.push_back(ref.generation);
    }
    if (all_clear) layer.cleared = static_cast<uint32_t>(layer.pages.size());
  }
}

void BlockTables::Restore(const std::vector<ClaimedLayer>& layers, bool clear) {
  FOLIO_CHECK(layers.size() == layers_.size());
  LayerPageLists pages;
  for (size_t l = 0; l < layers_.size(); ++l) {
    FOLIO_CHECK(layers_[l].pages.empty());
    pages.push_back(layers[l].pages);
  }
  Extend(pages, clear);
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    for (const PositionRange& range : layers[l].positions) {
      FOLIO_CHECK(range.begin < range.end);
      layer.resident += (range.end - range.begin).value();
      if (!keeps_positions()) continue;
      for (Position at = range.begin; at < range.end; ++at) layer.positions.push_back(at.value());
    }
    FOLIO_CHECK(layer.resident <= layer.pages.size() * geometry_.page_tokens);
    layer.cleared = std::max(layer.cleared, geometry_.pages_for(layer.resident));
  }
}

void BlockTables::DropBlocks(const DropAction& drop) {
  FOLIO_CHECK(drop.block.size() == layers_.size());
  const uint32_t page_tokens = geometry_.page_tokens;
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    if (!drop.block[l].has_value()) continue;
    const uint32_t block = drop.block[l]->value();
    FOLIO_CHECK(block < layer.resident / page_tokens);
    layer.pages.erase(layer.pages.begin() + block);
    layer.generations.erase(layer.generations.begin() + block);
    layer.resident -= page_tokens;
    layer.mirrored = std::min(layer.mirrored, block);
    layer.cleared -= block < layer.cleared ? 1 : 0;
    if (!keeps_positions()) continue;
    const auto first = layer.positions.begin() + size_t{block} * page_tokens;
    layer.positions.erase(first, first + page_tokens);
  }
}

void BlockTables::Compact(const CompactAction& compact) {
  FOLIO_CHECK(compact.keep.size() == layers_.size() && compact.spare.size() == layers_.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const std::vector<TokenSlot>& keep = compact.keep[l];
    const auto tokens = static_cast<uint32_t>(keep.size());
    const size_t pages = size_t{geometry_.pages_for(tokens)} + compact.spare[l].value();
    FOLIO_CHECK(tokens <= layer.resident && pages <= layer.pages.size());
    layer.pages.resize(pages);
    layer.generations.resize(pages);
    layer.resident = tokens;
    layer.mirrored = std::min(layer.mirrored, static_cast<uint32_t>(pages));
    layer.cleared = std::min(layer.cleared, static_cast<uint32_t>(pages));
    if (!keeps_positions()) continue;
    for (uint32_t i = 0; i < tokens; ++i) {
      layer.positions[i] = layer.positions[keep[i].value()];
    }
    layer.positions.resize(tokens);
  }
}

void BlockTables::DropFront(Layer& layer, uint32_t pages) const {
  const uint32_t tokens = pages * geometry_.page_tokens;
  FOLIO_CHECK(tokens <= layer.resident);
  layer.pages.erase(layer.pages.begin(), layer.pages.begin() + pages);
  layer.generations.erase(layer.generations.begin(), layer.generations.begin() + pages);
  layer.resident -= tokens;
  layer.mirrored = 0;
  layer.cleared -= std::min(layer.cleared, pages);
  if (keeps_positions()) {
    layer.positions.erase(layer.positions.begin(), layer.positions.begin() + tokens);
  }
}

void BlockTables::Advance(Position first, uint32_t rows) {
  for (Layer& layer : layers_) {
    layer.resident += rows;
    if (!keeps_positions()) continue;
    for (uint32_t i = 0; i < rows; ++i) layer.positions.push_back(first.value() + i);
  }
  if (!geometry_.windows.any()) return;
  const uint32_t length = first.value() + rows;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const uint32_t passed =
        geometry_.windows.PagesPassed(l, length, layers_[l].resident, geometry_.page_tokens);
    if (passed > 0) DropFront(layers_[l], passed);
  }
}

uint32_t BlockTables::pages(LayerIndex layer) const {
  return static_cast<uint32_t>(this->layer(layer).pages.size());
}

uint32_t BlockTables::total_pages() const {
  size_t pages = 0;
  for (const Layer& layer : layers_) pages += layer.pages.size();
  return static_cast<uint32_t>(pages);
}

uint32_t BlockTables::most_resident() const {
  uint32_t most = 0;
  for (const Layer& layer : layers_) most = std::max(most, layer.resident);
  return most;
}

uint32_t BlockTables::least_resident() const {
  uint32_t least = std::numeric_limits<uint32_t>::max();
  for (size_t l = 0; l < layers_.size(); ++l) {
    if (!geometry_.windows.contains(l)) least = std::min(least, layers_[l].resident);
  }
  return least;
}

uint32_t BlockTables::free_tokens() const {
  uint32_t free = std::numeric_limits<uint32_t>::max();
  for (const Layer& layer : layers_) {
    const auto room = static_cast<uint32_t>(layer.pages.size() * geometry_.page_tokens);
    free = std::min(free, room - layer.resident);
  }
  return free;
}

PageRef BlockTables::NewestPage(LayerIndex index) const {
  const Layer& layer = this->layer(index);
  FOLIO_CHECK(layer.resident > 0);
  const uint32_t block = (layer.resident - 1) / geometry_.page_tokens;
  return {PageId(layer.pages[block]), layer.generations[block]};
}

// FNV-1a over 32-bit words.
uint64_t BlockTables::Digest() const {
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

std::vector<uint32_t> BlockTables::Survivors(LayerIndex index,
                                             const std::vector<TokenSlot>& keep) const {
  const Layer& layer = this->layer(index);
  std::vector<uint32_t> slots;
  slots.reserve(keep.size());
  for (const TokenSlot slot : keep) {
    FOLIO_CHECK(slot.value() < layer.resident);
    FOLIO_CHECK(slots.empty() || slot.value() > slots.back());
    slots.push_back(slot.value());
  }
  return slots;
}

void BlockTables::SetMirrored(LayerIndex index) {
  Layer& layer = layers_.at(index.value());
  layer.mirrored = static_cast<uint32_t>(layer.pages.size());
}

void BlockTables::TakeUncleared(std::vector<uint32_t>& pages) {
  for (Layer& layer : layers_) {
    pages.insert(pages.end(), layer.pages.begin() + layer.cleared, layer.pages.end());
    layer.cleared = static_cast<uint32_t>(layer.pages.size());
  }
}

}  // namespace folio::model
