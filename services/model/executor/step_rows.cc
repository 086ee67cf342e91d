#include "services/model/executor/step_rows.h"

#include <algorithm>

#include "services/base/check.h"

namespace folio::model {
namespace {

// Lists where the next `rows` tokens of one layer go; their logical positions begin at `first`.
void PlaceRows(const BlockTables& table, LayerIndex index, Position first, uint32_t rows,
               kernels::AppendSlot* out) {
  const BlockTables::Layer& layer = table.layer(index);
  const uint32_t page_tokens = table.geometry().page_tokens;
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t slot = layer.resident + i;
    FOLIO_CHECK(slot / page_tokens < layer.pages.size());
    out[i] = {layer.pages[slot / page_tokens], slot % page_tokens, first.value() + i,
              table.score()};
  }
}

// Checks that the layer has all of its window's tokens before `first`, and nothing between gaps.
void CheckWindow(const BlockTables& table, LayerIndex layer, Position first) {
  const CacheGeometry& geometry = table.geometry();
  const uint32_t behind =
      geometry.windows.TokensBehind(layer.value(), first.value(), geometry.page_tokens);
  FOLIO_CHECK(table.resident(layer) == first.value() - behind);
}

}  // namespace

void StepRows::Begin(uint64_t step, const ModelConfig& config) {
  step_ = step;
  config_ = &config;
  segments_.clear();
  ids_.clear();
  windows_.clear();
  decode_rows_ = 0;
  positions_ = 0;
}

void StepRows::Add(const StepSegment& segment, SequenceState& sequence) {
  FOLIO_CHECK(sequence.last_step != step_);  // one segment per slot and step
  sequence.last_step = step_;
  const auto first_row = static_cast<uint32_t>(ids_.size());
  if (segment.tokens.empty()) {
    FOLIO_CHECK(!segment.prompt);
    FOLIO_CHECK(sequence.sampled_on_device || sequence.last_sampled.has_value());
    ids_.push_back(sequence.sampled_on_device ? kTokenOnDevice : sequence.last_sampled->value());
  }
  for (const TokenId token : segment.tokens) {
    FOLIO_CHECK(token.value() < config_->vocab);
    ids_.push_back(token.value());
  }
  const uint32_t rows = static_cast<uint32_t>(ids_.size()) - first_row;
  FOLIO_CHECK(segment.prompt || (rows == 1 && decode_rows_ == first_row));
  if (!segment.prompt) ++decode_rows_;
  FOLIO_CHECK(segment.want_output || !segment.target.has_value());
  FOLIO_CHECK(!segment.target.has_value() || segment.target->value() < config_->vocab);
  FOLIO_CHECK(rows <= sequence.table.free_tokens());
  const kernels::ScoreKind kind = sequence.table.score();
  FOLIO_CHECK(!segment.score_resident || WrittenOnDemand(kind));
  if (segment.window.queries > 0) {
    FOLIO_CHECK(segment.prompt && segment.window.queries <= rows);
    FOLIO_CHECK(segment.window.channel == (kind == kernels::ScoreKind::kWindowAttention ? 0U : 1U));
    windows_.push_back(
        {static_cast<uint32_t>(segments_.size()), segment.window, segment.scored_layers});
  }
  const uint64_t positions = uint64_t{segment.first_position.value()} + rows;
  FOLIO_CHECK(positions <= config_->context);
  positions_ = std::max(positions_, static_cast<uint32_t>(positions));
  segments_.push_back({&segment, &sequence, first_row, rows});
}

std::vector<const StepRows::Segment*> StepRows::Wanted() const {
  std::vector<const Segment*> wanted;
  for (const Segment& one : segments_) {
    if (one.segment->want_output) wanted.push_back(&one);
  }
  // All segments lie in the batch's one array, so their addresses have its order.
  std::sort(wanted.begin(), wanted.end(),
            [](const Segment* a, const Segment* b) { return a->segment < b->segment; });
  return wanted;
}

ForwardRows StepRows::forward() const {
  return {{decode_rows_, count() - decode_rows_},
          ids_,
          positions_,
          static_cast<uint32_t>(segments_.size()),
          windows_};
}

void StepRows::Place(LayerIndex layer, absl::Span<kernels::AppendSlot> slots,
                     absl::Span<kernels::AttentionItem> runs) {
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& one = segments_[i];
    const BlockTables& table = one.sequence->table;
    PlaceRows(table, layer, one.segment->first_position, one.rows, &slots[one.first_row]);
    // The new rows attend to all resident tokens and to themselves.
    runs[i] = {one.first_row, one.rows, table.layer(layer).pages.data(),
               table.resident(layer) + one.rows};
    if (!table.geometry().windows.contains(layer.value())) continue;
    CheckWindow(table, layer, one.segment->first_position);
    runs[i].window = table.geometry().windows.tokens();
  }
}

std::vector<uint32_t> StepRows::TakeUncleared() const {
  std::vector<uint32_t> pages;
  for (const Segment& one : segments_) one.sequence->table.TakeUncleared(pages);
  return pages;
}

void StepRows::Advance() const {
  for (const Segment& one : segments_) {
    one.sequence->table.Advance(one.segment->first_position, one.rows);
  }
}

}  // namespace folio::model
