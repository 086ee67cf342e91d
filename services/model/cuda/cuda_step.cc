#include "services/model/cuda/cuda_step.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/model/cuda/decode_shapes.h"

namespace folio::model {
namespace {

using kernels::cuda::PlacedItem;
using kernels::cuda::Uploads;

// The id of a row as FeedTokens wants it.
uint32_t FedId(uint32_t id, SequenceSlot slot) {
  return id == kTokenOnDevice ? kernels::cuda::kKeptToken + slot.value() : id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepInputBuilder>> StepInputBuilder::Make(
    kernels::cuda::DeviceMemory& memory, const CacheGeometry& geometry, uint32_t max_rows,
    uint32_t max_pages, bool plans_read_tokens) {
  std::unique_ptr<StepInputBuilder> layout(
      new StepInputBuilder(geometry, max_pages, plans_read_tokens));
  const uint32_t layers = geometry.num_layers;
  auto slots = memory.Allocate(size_t{layers} * max_rows * sizeof(kernels::AppendSlot),
                               "places of a step's rows");
  if (!slots.ok()) return slots.status();
  const size_t padding = size_t{layers} * std::min(max_rows, kMaxPaddedRows);
  auto pages = memory.Allocate((max_pages + padding) * sizeof(int32_t), "page tables of a step");
  if (!pages.ok()) return pages.status();
  layout->slots_ = *std::move(slots);
  layout->pages_ = *std::move(pages);
  return layout;
}

size_t StepInputBuilder::InputBytes(uint32_t layers, uint32_t padded_rows) {
  const size_t rows = padded_rows;
  const size_t starts = (rows + 1) * sizeof(int32_t);
  return Uploads::BytesOf({rows * sizeof(uint32_t), layers * rows * sizeof(PlacedItem), starts}) +
         layers * Uploads::BytesOf({rows * sizeof(int32_t), starts});
}

absl::StatusOr<StepInputs> StepInputBuilder::Build(const StepRows& rows, uint32_t padded_rows,
                                                   DeviceTables& tables, Uploads& uploads,
                                                   Uploads& inputs) const {
  StepInputs step;
  step.padded = padded_rows > 0;
  step.rows = step.padded ? padded_rows : rows.count();
  const Segments segments = rows.segments();
  for (const StepRows::Segment& one : segments) {
    if (absl::Status status =
            tables.Sync(one.segment->slot, one.sequence->table, uploads, step.writes);
        !status.ok()) {
      return status;
    }
  }
  step.table_writes = uploads.Put(absl::MakeConstSpan(step.writes));
  const ForwardRows forward = rows.forward();
  const Uploads::Room<uint32_t> ids = inputs.Reserve<uint32_t>(step.rows);
  step.ids = {ids.device, step.rows};
  for (const StepRows::Segment& one : segments) {
    for (uint32_t row = one.first_row; row < one.first_row + one.rows; ++row) {
      ids.host[row] = FedId(forward.ids[row], one.segment->slot);
    }
  }
  const uint32_t padding = step.rows - rows.count();
  std::fill_n(ids.host + rows.count(), padding, 0);
  // Decode rows have a segment each.
  const uint32_t decodes = forward.split.decode_rows;
  FOLIO_CHECK(!step.padded || decodes == rows.count());
  const size_t count = layers_ * (segments.size() + padding);
  const Uploads::Room<PlacedItem> runs = inputs.Reserve<PlacedItem>(count);
  step.runs = {runs.device, static_cast<uint32_t>(count)};
  Progress progress{tables, inputs, step.rows, runs.host};
  for (const Segments part : {segments.subspan(0, decodes), segments.subspan(decodes)}) {
    if (!part.empty()) step.parts.push_back(BuildPart(part, padding, progress));
  }
  // No page is in two tables, but padding looks at one of each layer again.
  FOLIO_CHECK(progress.pages <= max_pages_ + size_t{layers_} * padding);
  BuildWindows(rows, runs.host, inputs, step);
  return step;
}

AttentionPart StepInputBuilder::BuildPart(Segments segments, uint32_t padding,
                                          Progress& progress) const {
  const size_t count = segments.size() + padding;
  AttentionPart part;
  part.first_row = segments.front().first_row;
  part.row_starts.push_back(0);
  for (size_t i = 0; i < count; ++i) {
    part.rows += i < segments.size() ? segments[i].rows : 1;
    part.row_starts.push_back(static_cast<int32_t>(part.rows));
  }
  const int32_t* row_starts = progress.inputs.Put(absl::MakeConstSpan(part.row_starts)).data;
  const bool whole_pages = !plans_read_tokens_ || part.rows == count;
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    AttentionPart::Lengths lengths;
    lengths.window = windows_.contains(layer) ? windows_.tokens() : 0;
    const auto first_page = static_cast<uint32_t>(progress.pages);
    const auto on_device = progress.inputs.Reserve<int32_t>(count + 1);
    const auto last = progress.inputs.Reserve<int32_t>(count);
    on_device.host[0] = static_cast<int32_t>(first_page);
    for (size_t i = 0; i < count; ++i) {
      const bool pads = i >= segments.size();
      const StepRows::Segment& one = pads ? segments.front() : segments[i];
      const BlockTables& table = one.sequence->table;
      const uint32_t resident = pads ? 0 : table.resident(LayerIndex(layer));
      const uint32_t context = resident + (pads ? 1 : one.rows);
      const auto row = static_cast<uint32_t>(part.first_row + part.row_starts[i]);
      *progress.runs++ = {progress.tables.table(one.segment->slot, LayerIndex(layer)),
                          pages_.as<int32_t>() + progress.pages,
                          slots_.as<kernels::AppendSlot>() + size_t{layer} * progress.rows + row,
                          resident,
                          context - resident,
                          one.segment->first_position.value(),
                          table.score(),
                          pads};
      const uint32_t pages = (context + page_tokens_ - 1) / page_tokens_;
      progress.pages += pages;
      lengths.contexts.push_back(
          static_cast<int32_t>(whole_pages ? pages * page_tokens_ : context));
      on_device.host[i + 1] = static_cast<int32_t>(progress.pages);
      last.host[i] = static_cast<int32_t>((context - 1) % page_tokens_ + 1);
    }
    const auto known = std::find(part.lengths.begin(), part.lengths.end(), lengths);
    part.layers.push_back(
        {{pages_.as<int32_t>(), on_device.device, last.device, row_starts, first_page},
         lengths.window,
         static_cast<uint32_t>(known - part.lengths.begin())});
    if (known == part.lengths.end()) part.lengths.push_back(std::move(lengths));
  }
  return part;
}

void StepInputBuilder::BuildWindows(const StepRows& rows, const PlacedItem* runs, Uploads& inputs,
                                    StepInputs& step) const {
  const absl::Span<const ScoringRows> windows = rows.forward().windows;
  step.windows.resize(layers_);
  if (windows.empty()) return;
  const Segments segments = rows.segments();
  const uint32_t decodes = rows.forward().split.decode_rows;
  const size_t prompts = segments.size() - decodes;
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    if (windows_.contains(layer)) continue;
    const Uploads::Room<kernels::WindowItem> room =
        inputs.Reserve<kernels::WindowItem>(windows.size());
    uint32_t count = 0;
    for (const auto& [index, window, wanted] : windows) {
      if (!wanted.contains(layer)) continue;
      const StepRows::Segment& one = segments[index];
      const uint32_t context = one.sequence->table.resident(LayerIndex(layer)) + one.rows;
      // Windows are of prompts, whose runs come after those of decode rows in all layers.
      const PlacedItem& run = runs[layers_ * decodes + layer * prompts + index - decodes];
      room.host[count++] = {{one.first_row + one.rows - window.queries, window.queries,
                             reinterpret_cast<const uint32_t*>(run.pages), context},
                            window.neighbours,
                            window.channel};
      step.window_limits.context = std::max(step.window_limits.context, context);
      step.window_limits.queries = std::max(step.window_limits.queries, window.queries);
    }
    step.windows[layer] = {room.device, count};
  }
}

}  // namespace folio::model
