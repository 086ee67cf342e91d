// The fast family has bf16 activations and one table of kernels per instruction set
// (fast/kernels.h). Products of prompt rows go to PromptGemm where it serves the CPU.
#include <algorithm>
#include <memory>

#include "kernels/cpu/fast/attention.h"
#include "kernels/cpu/fast/div_up.h"
#include "kernels/cpu/fast/kernels.h"
#include "kernels/cpu/fast/key_scoring.h"
#include "kernels/cpu/fast/panel_weights.h"
#include "kernels/cpu/fast/prompt_gemm.h"
#include "kernels/cpu/fast/quantized_products.h"
#include "kernels/cpu/fast/select.h"
#include "kernels/cpu/fast/strip_weights.h"
#include "kernels/cpu/fast/window_scoring.h"
#include "kernels/cpu/ops.h"
#include "services/base/check.h"

namespace folio::kernels::cpu {
namespace {

using fast::DivUp;
using fast::KernelTable;
using fast::LinearTile;
using fast::PanelWeights;
using fast::StripWeights;
using fast::TasksFor;

// Up to this number of rows a call is bound by streaming weights once, beyond it by arithmetic.
constexpr uint32_t kStreamRows = 32;
// A task beyond that has this many row groups, and panels that stay in the second-level cache.
constexpr uint32_t kRowGroups = 4;
constexpr size_t kPanelBytes = 256 << 10;

const PanelWeights& Panels(const PackedWeights& weight, bool gated) {
  const auto& panels = static_cast<const PanelWeights&>(weight);
  FOLIO_DCHECK(dynamic_cast<const PanelWeights*>(&weight) != nullptr && panels.gated() == gated);
  return panels;
}

class FastOps final : public CpuOps {
 public:
  explicit FastOps(const fast::FamilyKernels& family)
      : name_(family.name),
        kernels_(*family.table),
        quantized_(*family.quantized),
        attention_(kernels_),
        key_scoring_(kernels_),
        window_scoring_(kernels_),
        prompts_(fast::PromptGemm::Make(kernels_)),
        quantized_products_(kernels_, quantized_, prompts_.get()) {}

  absl::string_view name() const override { return name_; }
  size_t activation_bytes() const override { return sizeof(bf16); }

  std::unique_ptr<PackedWeights> Pack(Matrix<const bf16> weight) const override {
    return PanelWeights::Pack(arena_, kernels_.lanes, weight);
  }

  std::unique_ptr<PackedWeights> PackGated(Matrix<const bf16> gate, Matrix<const bf16> up,
                                           Activation activation) const override {
    FOLIO_CHECK(gate.rows == up.rows && gate.cols == up.cols);
    return PanelWeights::Pack(arena_, kernels_.lanes, gate, &up, activation);
  }

  std::unique_ptr<PackedWeights> PackQuantized(
      absl::Span<const QuantizedMatrix* const> parts) const override {
    return StripWeights::Pack(arena_, quantized_.lanes, parts);
  }

  std::unique_ptr<PackedWeights> PackGatedQuantized(const QuantizedMatrix& gate,
                                                    const QuantizedMatrix& up,
                                                    Activation activation) const override {
    FOLIO_CHECK(gate.n() == up.n() && gate.k() == up.k());
    return StripWeights::Pack(arena_, quantized_.lanes, {&gate, &up}, activation);
  }

  void Lookup(ThreadPool& pool, const PackedWeights& weight, absl::Span<const uint32_t> ids,
              Matrix<float> out) const override {
    const auto& strips = dynamic_cast<const StripWeights&>(weight);
    pool.ParallelFor(static_cast<int>(ids.size()), [&](int task, int) {
      strips.ReadRow(ids[task], {out.row(task), out.cols});
    });
  }

  void Embed(ThreadPool& pool, Matrix<const bf16> embedding, absl::Span<const uint32_t> ids,
             Matrix<float> out) const override {
    ForRows(pool, ids.size(), [&](size_t r) {
      FOLIO_DCHECK(ids[r] < embedding.rows);
      kernels_.embed(embedding.row(ids[r]), out.row(r), embedding.cols);
    });
  }

  void RmsNorm(ThreadPool& pool, Matrix<const float> x, absl::Span<const float> weight, float eps,
               Activations out) const override {
    ForRows(pool, x.rows, [&](size_t r) {
      kernels_.rms_norm(x.row(r), weight.data(), eps, x.cols,
                        static_cast<bf16*>(out.data) + r * out.cols);
    });
  }

  void Linear(ThreadPool& pool, RowSplit rows, Activations in, const PackedWeights& weight,
              Matrix<float> out, bool accumulate) const override {
    if (const auto* strips = dynamic_cast<const StripWeights*>(&weight)) {
      return quantized_products_.Linear(pool, rows, From(in, 0), *strips, out, accumulate);
    }
    const PanelWeights& panels = Panels(weight, false);
    const uint32_t own = OwnRows(rows, panels);
    if (own < rows.total())
      prompts_->Linear(pool, From(in, own), panels, From(out, own), accumulate);
    ForTiles(pool, own, in, panels, [&](const LinearTile& tile, size_t row, size_t column) {
      kernels_.linear(tile, {out.row(row) + column, out.stride, accumulate});
    });
  }

  void GatedLinear(ThreadPool& pool, RowSplit rows, Activations in, const PackedWeights& gate_up,
                   Activations out) const override {
    if (const auto* strips = dynamic_cast<const StripWeights*>(&gate_up)) {
      return quantized_products_.Gated(
          pool, rows, From(in, 0), *strips,
          {static_cast<bf16*>(out.data), out.rows, out.cols, out.cols});
    }
    const PanelWeights& panels = Panels(gate_up, true);
    const uint32_t own = OwnRows(rows, panels);
    if (own < rows.total()) {
      prompts_->Gated(pool, From(in, own), panels,
                      {static_cast<bf16*>(out.data) + size_t{own} * out.cols, rows.total() - own,
                       out.cols, out.cols});
    }
    const auto kernel = kernels_.gated[fast::IndexOf(panels.activation())];
    ForTiles(pool, own, in, panels, [&](const LinearTile& tile, size_t row, size_t column) {
      kernel(tile, {static_cast<bf16*>(out.data) + row * out.cols + column, out.cols});
    });
  }

  void RopeAppendScore(ThreadPool& pool, Matrix<const float> qkv, const AttentionShape& shape,
                       const RopeTable& rope, absl::Span<const AppendSlot> slots,
                       const PoolView& pages, Activations q) const override {
    const size_t half = shape.head_dim / 2;
    ForRows(pool, slots.size(), [&](size_t r) {
      const AppendSlot& slot = slots[r];
      FOLIO_DCHECK(slot.position < rope.positions && slot.page < pages.num_pages);
      const size_t at = size_t{slot.offset} * shape.head_dim;
      const bool scored = WrittenAtAppend(slot.score) && pages.scores != nullptr;
      kernels_.rope_append(
          {.qkv = qkv.row(r),
           .cos = rope.cos + slot.position * half,
           .sin = rope.sin + slot.position * half,
           .heads = shape.heads,
           .kv_heads = shape.kv_heads,
           .head_dim = shape.head_dim,
           .q = static_cast<bf16*>(q.data) + r * q.cols,
           .keys = pages.keys(slot.page) + at,
           .values = pages.values(slot.page) + at,
           .head_stride = size_t{pages.geometry.page_tokens} * shape.head_dim,
           .kind = slot.score,
           .score = scored ? pages.page_scores(slot.page) + slot.offset * pages.score_stride()
                           : nullptr});
    });
  }

  void Attention(ThreadPool& pool, RowSplit split, Activations q,
                 absl::Span<const AttentionItem> runs, const AttentionShape& shape,
                 const PoolView& pages, Activations out) const override {
    attention_.Run(pool, split, static_cast<const bf16*>(q.data), runs, shape, pages,
                   static_cast<bf16*>(out.data));
  }

  void ScoreResident(ThreadPool& pool, absl::Span<const ResidentItem> runs,
                     const PoolView& pages) const override {
    key_scoring_.Resident(pool, runs, pages);
  }

  void ScoreUnrotated(ThreadPool& pool, absl::Span<const UnrotatedItem> runs, const RopeTable& rope,
                      const PoolView& pages) const override {
    key_scoring_.Unrotated(pool, runs, rope, pages);
  }

  void ScoreWindow(ThreadPool& pool, Activations q, absl::Span<const WindowItem> runs,
                   const AttentionShape& shape, const PoolView& pages) const override {
    window_scoring_.Score(pool, static_cast<const bf16*>(q.data), runs, shape, pages);
  }

 private:
  // The first rows are computed by our own kernels, the others by PromptGemm.
  uint32_t OwnRows(RowSplit rows, const PanelWeights& weight) const {
    return prompts_ != nullptr && prompts_->Serves(weight.num_panels(), weight.k())
               ? rows.decode_rows
               : rows.total();
  }
  static Matrix<const bf16> From(const Activations& in, uint32_t row) {
    return {static_cast<const bf16*>(in.data) + size_t{row} * in.cols, in.rows - row, in.cols,
            in.cols};
  }
  static Matrix<float> From(const Matrix<float>& out, uint32_t row) {
    return {out.row(row), out.rows - row, out.cols, out.stride};
  }

  // A few rows are not worth waking a thread for.
  template <typename Body>
  void ForRows(ThreadPool& pool, size_t rows, Body body) const {
    constexpr size_t kRowsPerTask = 16;
    const int tasks = static_cast<int>((rows + kRowsPerTask - 1) / kRowsPerTask);
    pool.ParallelFor(tasks, [&](int task, int) {
      const size_t first = task * kRowsPerTask;
      for (size_t r = first; r < std::min(rows, first + kRowsPerTask); ++r) body(r);
    });
  }

  // Cuts rows x panels into tasks. When streaming, a task is a range of neighbouring panels with
  // all rows. Otherwise it is a block of rows against one panel.
  template <typename Kernel>
  void ForTiles(ThreadPool& pool, uint32_t rows, const Activations& in, const PanelWeights& weight,
                Kernel kernel) const {
    if (rows == 0) return;
    FOLIO_DCHECK(in.cols == weight.k());
    const auto run = [&](uint32_t row, uint32_t row_count, uint32_t panel, uint32_t panel_end,
                         bool stream) {
      const uint32_t column = panel * weight.panel_columns();
      kernel(LinearTile{.in = static_cast<const bf16*>(in.data) + size_t{row} * in.cols,
                        .in_stride = in.cols,
                        .rows = row_count,
                        .k = in.cols,
                        .panels = weight.panel(panel),
                        .num_panels = panel_end - panel,
                        .columns = weight.n() - column,
                        .stream = stream},
             row, column);
    };
    const uint32_t panels = weight.num_panels();
    if (rows <= kStreamRows) {
      const uint32_t tasks = std::min(panels, TasksFor(pool));
      pool.ParallelFor(static_cast<int>(tasks), [&](int task, int) {
        run(0, rows, uint64_t{panels} * task / tasks, uint64_t{panels} * (task + 1) / tasks, true);
      });
      return;
    }
    // Neighbouring tasks share panels, so that a thread finds them in its second-level cache.
    const uint32_t width = std::max<uint32_t>(1, kPanelBytes / weight.panel_bytes());
    const uint32_t columns = DivUp(panels, width);
    const uint32_t row_block = kRowGroups * kernels_.group_rows;
    const uint32_t blocks = DivUp(rows, row_block);
    pool.ParallelFor(static_cast<int>(blocks * columns), [&](int task, int) {
      const uint32_t column = task / blocks;
      const uint32_t row = task % blocks * row_block;
      run(row, std::min(row_block, rows - row), uint64_t{panels} * column / columns,
          uint64_t{panels} * (column + 1) / columns, false);
    });
  }

  const absl::string_view name_;
  const KernelTable& kernels_;
  const fast::QuantizedTable& quantized_;
  mutable fast::WeightArena arena_;
  mutable fast::PagedAttention attention_;              // holds scratch; one step at a time
  mutable fast::KeyScoring key_scoring_;                // likewise
  mutable fast::WindowScoring window_scoring_;          // likewise
  std::unique_ptr<fast::PromptGemm> prompts_;           // null: the own kernels do all
  mutable fast::QuantizedProducts quantized_products_;  // likewise
};

}  // namespace

absl::StatusOr<std::unique_ptr<CpuOps>> MakeFastOps(absl::string_view name) {
  absl::StatusOr<fast::FamilyKernels> family = fast::SelectKernels(name);
  if (!family.ok()) return family.status();
  return std::make_unique<FastOps>(*family);
}

}  // namespace folio::kernels::cpu
