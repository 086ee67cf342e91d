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

// Finds for each of the next `rows` tokens, whose positions begin at `first`, the first slot within
// its window. Positions are ascending, and those of the new tokens have no gaps.
void FindWindows(const BlockTables::Layer& layer, uint32_t first, uint32_t rows, uint32_t window,
                 uint32_t* out) {
  FOLIO_CHECK(layer.positions.size() == layer.resident);
  auto at = layer.positions.begin();
  for (uint32_t i = 0; i < rows; ++i) {
    const uint32_t seen = first + i + 1;  // positions up to the row's own
    const uint32_t least = seen > window ? seen - window : 0;
    at = std::lower_bound(at, layer.positions.end(), least);
    const auto before = static_cast<uint32_t>(at - layer.positions.begin());
    out[i] = before + (before == layer.resident && least > first ? least - first : 0);
  }
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
    windows_.push_back({static_cast<uint32_t>(segments_.size()), segment.window});
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
  // Shorter sequences attend to all tokens there too.
  const uint32_t window = config_->is_other(layer.value()) ? config_->window() : 0;
  const bool windowed = window != 0 && positions_ > window;
  if (windowed) first_slots_.resize(count());
  for (size_t i = 0; i < segments_.size(); ++i) {
    const Segment& one = segments_[i];
    const BlockTables& table = one.sequence->table;
    PlaceRows(table, layer, one.segment->first_position, one.rows, &slots[one.first_row]);
    // The new rows attend to all resident tokens and to themselves.
    runs[i] = {one.first_row, one.rows, table.layer(layer).pages.data(),
               table.resident(layer) + one.rows};
    if (!windowed) continue;
    uint32_t* first_slots = &first_slots_[one.first_row];
    FindWindows(table.layer(layer), one.segment->first_position.value(), one.rows, window,
                first_slots);
    runs[i].first_slots = first_slots;
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
