#include "services/model/executor/resident_scoring.h"

#include <algorithm>

#include "services/base/check.h"

namespace folio::model {

void ResidentScoring::Clear() {
  resident_.clear();
  unrotated_.clear();
  others_.clear();
}

void ResidentScoring::Add(const BlockTables& table, bool prompt, const LayerRange& wanted) {
  const uint32_t end = std::min(wanted.end, table.geometry().num_layers);
  for (uint32_t l = wanted.begin; l < end; ++l) {
    if (table.geometry().windows.contains(l)) continue;
    if (table.score() == ScoreKind::kKeyDifference) {
      const BlockTables::Layer& layer = table.layer(LayerIndex(l));
      resident_.push_back({layer.pages.data(), layer.resident});
    } else {
      AddUnrotated(table, l, prompt);
    }
  }
}

// At the end of the prompt every token is scored against every token. Later the tokens of a newly
// filled page are scored against every token behind the first page, or every n-th of them where
// these would be more than kMaxSamples.
void ResidentScoring::AddUnrotated(const BlockTables& table, uint32_t layer, bool prompt) {
  FOLIO_CHECK(table.score() == ScoreKind::kUnrotatedDifference);
  const uint32_t page_tokens = table.geometry().page_tokens;
  const BlockTables::Layer& tokens = table.layer(LayerIndex(layer));
  kernels::UnrotatedItem item = {.pages = tokens.pages.data(),
                                 .positions = tokens.positions.data(),
                                 .tokens = tokens.resident};
  if (!prompt) {
    if (item.tokens % page_tokens != 0) return;
    const uint32_t others = item.tokens - page_tokens;
    item.first = others;
    item.stride = std::max(1U, (others + kMaxSamples - 1) / kMaxSamples);
  }
  (!is_other_.empty() && is_other_[layer] ? others_ : unrotated_).push_back(item);
}

}  // namespace folio::model
