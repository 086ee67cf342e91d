#include "kernels/cpu/fast/quantized_products.h"

#include <algorithm>
#include <bit>

#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

// A task has at most so many rows, whose quantised values stay in the second-level cache.
constexpr uint32_t kTaskRows = 64;
// Strips whose results are taken together.
constexpr size_t kTogether = 4;

// Panels are made of pairs of strips when they are read.
class StripPanels final : public PanelSource {
 public:
  StripPanels(const StripWeights& weight, const QuantizedTable& kernels)
      : weight_(weight), kernels_(kernels) {}
  uint32_t panels() const override {
    return static_cast<uint32_t>(weight_.strips().size() + 1) / 2;
  }
  uint32_t k() const override { return weight_.k(); }
  PanelBlock Read(uint32_t first, uint32_t count, uint32_t begin, uint32_t end,
                  uint32_t* space) const override {
    const size_t stride = size_t{end - begin} * kernels_.lanes;
    for (uint32_t half = 0; half < 2 * count; ++half) {
      Unpack(size_t{2} * first + half, begin, end,
             space + half / 2 * stride + half % 2 * kernels_.lanes);
    }
    return {space, stride};
  }
  const uint32_t* Held(uint32_t /*first*/, uint32_t /*begin*/) const override { return nullptr; }

 private:
  void Unpack(size_t strip, uint32_t begin, uint32_t end, uint32_t* out) const {
    if (strip == weight_.strips().size()) {  // a last panel without a second half
      for (uint32_t pair = begin / 2; pair < end / 2; ++pair, out += 2 * kernels_.lanes) {
        std::fill_n(out, kernels_.lanes, 0);
      }
      return;
    }
    const Strip& of = weight_.strips()[strip];
    kernels_.unpack[of.format]({.strip = of.bytes,
                                .at = weight_.layout(of.format),
                                .first = begin / kQuantizedBlock,
                                .end = end / kQuantizedBlock,
                                .out = out});
  }

  const StripWeights& weight_;
  const QuantizedTable& kernels_;
};

Matrix<const bf16> RowsOf(const Matrix<const bf16>& in, size_t first, size_t count) {
  return {in.row(first), count, in.cols, in.stride};
}

}  // namespace

void QuantizedProducts::Linear(ThreadPool& pool, RowSplit rows, Matrix<const bf16> in,
                               const StripWeights& weight, Matrix<float> out, bool accumulate) {
  FOLIO_DCHECK(!weight.activation().has_value() && in.cols == weight.k());
  const absl::Span<const Strip> strips = weight.strips();
  Multiply(pool, rows, in, weight,
           [&](uint32_t row, uint32_t count, size_t strip, size_t end, const float* values,
               size_t stride) {
             // Strips whose columns are neighbours, which are all but the ends of matrices.
             while (strip < end) {
               const uint32_t column = strips[strip].column;
               size_t next = strip;
               uint32_t columns = 0;
               do {
                 columns += strips[next].columns;
                 ++next;
               } while (next < end && columns == (next - strip) * quantized_.lanes);
               for (uint32_t r = 0; r < count; ++r) {
                 kernels_.put(values + r * stride, columns, out.row(row + r) + column, accumulate);
               }
               values += (next - strip) * quantized_.lanes;
               strip = next;
             }
           });
}

void QuantizedProducts::Gated(ThreadPool& pool, RowSplit rows, Matrix<const bf16> in,
                              const StripWeights& weight, Matrix<bf16> out) {
  FOLIO_DCHECK(weight.activation().has_value() && in.cols == weight.k());
  const auto gate = kernels_.gate[IndexOf(*weight.activation())];
  const absl::Span<const Strip> strips = weight.strips();
  Multiply(pool, rows, in, weight,
           [&](uint32_t row, uint32_t count, size_t strip, size_t end, const float* values,
               size_t stride) {
             const uint32_t column = strips[strip].column;
             const uint32_t columns = strips[end - 1].column + strips[end - 1].columns - column;
             for (uint32_t r = 0; r < count; ++r) {
               gate(values + r * stride, columns, out.row(row + r) + column);
             }
           });
}

void QuantizedProducts::Multiply(ThreadPool& pool, RowSplit rows, const Matrix<const bf16>& in,
                                 const StripWeights& weight, Take take) {
  const uint32_t panels = StripPanels(weight, quantized_).panels();
  const bool unpacks = prompts_ != nullptr && prompts_->Serves(panels, weight.k());
  const uint32_t quantized = unpacks ? rows.decode_rows : rows.total();
  if (quantized > 0) MultiplyQuantized(pool, RowsOf(in, 0, quantized), weight, take);
  if (quantized == rows.total()) return;
  MultiplyUnpacked(
      pool, RowsOf(in, quantized, rows.total() - quantized), weight,
      [&](uint32_t row, uint32_t count, size_t strip, size_t end, const float* values,
          size_t stride) { take(quantized + row, count, strip, end, values, stride); });
}

uint32_t QuantizedProducts::GroupSize(uint32_t row, uint32_t rows) const {
  return std::min<uint32_t>(std::bit_width(rows - row) - 1, quantized_.group_sizes - 1);
}

// Groups lie one behind the other, each [k / 32][rows of the group].
void QuantizedProducts::Quantize(ThreadPool& pool, const Matrix<const bf16>& in) {
  const uint32_t k = static_cast<uint32_t>(in.cols);
  const size_t blocks = k / kQuantizedBlock;
  ActivationBlock* to = activations_.Get(in.rows * blocks);
  const uint32_t rows = static_cast<uint32_t>(in.rows);
  const auto quantize = [&](uint32_t first, uint32_t end) {
    for (uint32_t row = first; row < end;) {
      const uint32_t group = 1u << GroupSize(row, end);
      for (uint32_t r = 0; r < group; ++r) {
        quantized_.quantize(in.row(row + r), k, to + row * blocks + r, group);
      }
      row += group;
    }
  };
  if (rows <= kTaskRows / 8) return quantize(0, rows);  // not worth waking a thread for
  pool.ParallelFor(static_cast<int>((rows + kTaskRows - 1) / kTaskRows), [&](int task, int) {
    quantize(task * kTaskRows, std::min(rows, (task + 1) * kTaskRows));
  });
}

void QuantizedProducts::MultiplyQuantized(ThreadPool& pool, const Matrix<const bf16>& in,
                                          const StripWeights& weight, Take take) {
  Quantize(pool, in);
  if (results_.size() < static_cast<size_t>(pool.threads())) results_.resize(pool.threads());
  const uint32_t lanes = quantized_.lanes;
  const uint32_t blocks = weight.k() / kQuantizedBlock;
  const ActivationBlock* activations = activations_.Get(0);
  const absl::Span<const Strip> strips = weight.strips();
  const size_t rows = in.rows;
  const size_t row_tasks = (rows + kTaskRows - 1) / kTaskRows;
  const size_t pieces = (strips.size() + kTogether - 1) / kTogether;
  const size_t column_tasks = std::min(pieces, size_t{TasksFor(pool)});
  // Neighbouring tasks share weights.
  pool.ParallelFor(static_cast<int>(row_tasks * column_tasks), [&](int task, int thread) {
    const auto first_row = static_cast<uint32_t>(task % row_tasks * kTaskRows);
    const auto end_row = static_cast<uint32_t>(std::min(rows, size_t{first_row} + kTaskRows));
    const size_t column = task / row_tasks;
    const size_t end = std::min(strips.size(), pieces * (column + 1) / column_tasks * kTogether);
    float* values = results_[thread].Get(size_t{kTogether} * kMaxLanes << (kGroupSizes - 1));
    for (size_t strip = pieces * column / column_tasks * kTogether; strip < end;
         strip += kTogether) {
      const size_t count = std::min(kTogether, end - strip);
      for (uint32_t row = first_row; row < end_row;) {
        const uint32_t size = GroupSize(row, end_row);
        for (size_t s = 0; s < count; ++s) {
          const Strip& of = strips[strip + s];
          quantized_.multiply[of.format][size]({.strip = of.bytes,
                                                .at = weight.layout(of.format),
                                                .blocks = blocks,
                                                .rows = activations + size_t{row} * blocks,
                                                .out = values + s * lanes,
                                                .out_stride = kTogether * lanes});
        }
        take(row, 1u << size, strip, strip + count, values, kTogether * lanes);
        row += 1u << size;
      }
    }
  });
}

void QuantizedProducts::MultiplyUnpacked(ThreadPool& pool, const Matrix<const bf16>& in,
                                         const StripWeights& weight, Take take) {
  const StripPanels panels(weight, quantized_);
  const size_t strips = weight.strips().size();
  prompts_->Multiply(pool, in, panels, [&](const PanelProduct& part) {
    const size_t strip = size_t{2} * part.panel;
    take(part.row, part.rows, strip, std::min(strips, strip + size_t{2} * part.panels), part.values,
         part.stride);
  });
}

}  // namespace folio::kernels::cpu::fast
