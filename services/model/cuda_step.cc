#include "services/model/cuda_step.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/common/check.h"

namespace folio::model {
namespace {

using kernels::cuda::LaidRun;
using kernels::cuda::Uploads;

// The id of a row as FeedTokens wants it.
uint32_t FedId(uint32_t id, SlotId slot) {
  return id == kTokenOnDevice ? kernels::cuda::kKeptToken + slot.value() : id;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepLayout>> StepLayout::Make(kernels::cuda::DeviceMemory& memory,
                                                             uint32_t layers, uint32_t page_tokens,
                                                             uint32_t max_rows,
                                                             uint32_t most_pages) {
  std::unique_ptr<StepLayout> layout(new StepLayout(layers, page_tokens, most_pages));
  auto slots = memory.Allocate(size_t{layers} * max_rows * sizeof(kernels::AppendSlot),
                               "places of a step's rows");
  if (!slots.ok()) return slots.status();
  auto pages = memory.Allocate(size_t{most_pages} * sizeof(int32_t), "page tables of a step");
  if (!pages.ok()) return pages.status();
  layout->slots_ = *std::move(slots);
  layout->pages_ = *std::move(pages);
  return layout;
}

absl::StatusOr<LaidStep> StepLayout::Lay(const StepRows& rows, CudaTables& tables,
                                         Uploads& uploads) const {
  LaidStep step;
  step.rows = rows.count();
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
  const Uploads::Room<uint32_t> ids = uploads.Reserve<uint32_t>(step.rows);
  step.ids = {ids.device, step.rows};
  for (const StepRows::Segment& one : segments) {
    for (uint32_t row = one.first_row; row < one.first_row + one.rows; ++row) {
      ids.host[row] = FedId(forward.ids[row], one.segment->slot);
    }
  }
  // Decode rows have a segment each.
  const uint32_t decodes = forward.split.decode_rows;
  std::vector<LaidRun> runs;
  size_t at = 0;
  for (const Segments part : {segments.subspan(0, decodes), segments.subspan(decodes)}) {
    if (part.empty()) continue;
    step.parts.push_back(LayPart(part, step.rows, tables, uploads, at, runs));
  }
  // No page is in two tables.
  FOLIO_CHECK(at <= most_pages_);
  step.runs = uploads.Put(absl::MakeConstSpan(runs));
  std::vector<const int32_t*> pages;  // [layer][segment], where each run's pages are laid
  const size_t prompts = segments.size() - decodes;
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    for (size_t i = 0; i < segments.size(); ++i) {
      const size_t run = i < decodes ? size_t{layer} * decodes + i
                                     : size_t{layers_} * decodes + layer * prompts + i - decodes;
      pages.push_back(runs[run].pages);
    }
  }
  LayWindows(rows, pages, uploads, step);
  return step;
}

AttentionPart StepLayout::LayPart(Segments segments, uint32_t rows_in_all, const CudaTables& tables,
                                  Uploads& uploads, size_t& at, std::vector<LaidRun>& runs) const {
  AttentionPart part;
  part.first_row = segments.front().first_row;
  part.row_starts.push_back(0);
  for (const StepRows::Segment& one : segments) {
    part.rows += one.rows;
    part.row_starts.push_back(static_cast<int32_t>(part.rows));
  }
  const int32_t* row_starts = uploads.Put(absl::MakeConstSpan(part.row_starts)).data;
  std::vector<const int32_t*> on_device;  // of page_starts
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    const size_t first_page = at;
    std::vector<int32_t> starts{0};
    const Uploads::Room<int32_t> last = uploads.Reserve<int32_t>(segments.size());
    for (size_t i = 0; i < segments.size(); ++i) {
      const StepRows::Segment& one = segments[i];
      const SlotTable& table = one.sequence->table;
      const uint32_t resident = table.resident(LayerIndex(layer));
      const uint32_t context = resident + one.rows;
      runs.push_back(
          {tables.table(one.segment->slot, LayerIndex(layer)), pages_.as<int32_t>() + at,
           slots_.as<kernels::AppendSlot>() + size_t{layer} * rows_in_all + one.first_row, resident,
           one.rows, one.segment->first_position.value(), table.score()});
      const uint32_t pages = (context + page_tokens_ - 1) / page_tokens_;
      at += pages;
      starts.push_back(starts.back() + static_cast<int32_t>(pages));
      last.host[i] = static_cast<int32_t>((context - 1) % page_tokens_ + 1);
    }
    const auto known = std::find(part.page_starts.begin(), part.page_starts.end(), starts);
    const auto lengths = static_cast<uint32_t>(known - part.page_starts.begin());
    if (known == part.page_starts.end()) {
      on_device.push_back(uploads.Put(absl::MakeConstSpan(starts)).data);
      part.page_starts.push_back(std::move(starts));
    }
    part.layers.push_back(
        {{pages_.as<int32_t>() + first_page, on_device[lengths], last.device, row_starts},
         lengths});
  }
  return part;
}

void StepLayout::LayWindows(const StepRows& rows, const std::vector<const int32_t*>& pages,
                            Uploads& uploads, LaidStep& step) const {
  const absl::Span<const ScoringRows> windows = rows.forward().windows;
  step.windows.resize(layers_);
  if (windows.empty()) return;
  const Segments segments = rows.segments();
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    const Uploads::Room<kernels::WindowRun> room =
        uploads.Reserve<kernels::WindowRun>(windows.size());
    for (size_t i = 0; i < windows.size(); ++i) {
      const WindowScore& window = windows[i].window;
      const StepRows::Segment& one = segments[windows[i].run];
      const uint32_t context = one.sequence->table.resident(LayerIndex(layer)) + one.rows;
      const auto* table =
          reinterpret_cast<const uint32_t*>(pages[layer * segments.size() + windows[i].run]);
      room.host[i] = {{one.first_row + one.rows - window.queries, window.queries, table, context},
                      window.neighbours,
                      window.plane};
      step.window_limits.context = std::max(step.window_limits.context, context);
      step.window_limits.queries = std::max(step.window_limits.queries, window.queries);
    }
    step.windows[layer] = {room.device, static_cast<uint32_t>(windows.size())};
  }
}

}  // namespace folio::model
