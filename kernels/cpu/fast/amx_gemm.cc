#include <algorithm>
#include <vector>

#include "kernels/cpu/fast/amx_products.h"
#include "kernels/cpu/fast/div_up.h"
#include "kernels/cpu/fast/prompt_gemm.h"
#include "kernels/cpu/fast/scratch.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

// A group of panels is multiplied by all rows before the next, a part of k at a time. The part is
// half a megabyte, and stays in the second-level cache while rows pass. Sums stay in memory between
// the parts.
constexpr uint32_t kGroupPanels = 8;
constexpr uint32_t kPartK = 1024;
constexpr uint32_t kPartMultiple = 256;  // see PanelSource
constexpr uint32_t kBlockRows = 1024;    // rows of one task, at most

// Below these sizes of a task rows or panels are not cut while the others can be.
constexpr uint32_t kLeastRows = 128;
constexpr uint32_t kLeastPanels = 4;

constexpr uint32_t kMostLines = 4;  // of a cache, fetched with each step of a product
constexpr uint32_t kLineWords = 16;
constexpr uint32_t kPackedRows = 4096;  // that are in the order of tiles at a time

// Nearly equal shares of a whole.
struct Shares {
  uint32_t whole, count;
  uint32_t begin(uint32_t share) const {
    return static_cast<uint32_t>(uint64_t{whole} * share / count);
  }
};

// How a product is cut into about the wanted number of tasks: pairs of tiles of rows, and panels.
struct Cut {
  Shares pairs, panels;

  Cut(uint32_t num_pairs, uint32_t num_panels, uint32_t wanted) {
    const uint32_t rows = num_pairs * kRowPair;
    const uint32_t groups = DivUp(num_panels, kGroupPanels);
    const uint32_t large_groups = DivUp(num_panels, kLeastPanels);
    // First fewer panels, then fewer rows, then still fewer panels.
    panels = {num_panels, std::max(groups, std::min(large_groups, wanted))};
    pairs = {num_pairs, std::max(DivUp(rows, kBlockRows),
                                 std::min(DivUp(rows, kLeastRows), DivUp(wanted, panels.count)))};
    panels.count = std::min(num_panels, std::max(panels.count, DivUp(wanted, pairs.count)));
  }
};

class AmxGemm final : public PromptGemm {
 public:
  explicit AmxGemm(const KernelTable& kernels) : PromptGemm(kernels) {
    FOLIO_CHECK(2 * kernels.lanes == kPanelColumns);
  }

  bool Serves(uint32_t /*panels*/, uint32_t k) override { return k % kStepK == 0; }

  void Multiply(ThreadPool& pool, Matrix<const bf16> in, const PanelSource& source,
                absl::FunctionRef<void(const PanelProduct&)> take) override {
    if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
    for (size_t first = 0; first < in.rows; first += kPackedRows) {
      const size_t rows = std::min(in.rows - first, size_t{kPackedRows});
      MultiplyRows(pool, {in.row(first), rows, in.cols, in.stride}, source, [&](PanelProduct part) {
        part.row += static_cast<uint32_t>(first);
        take(part);
      });
    }
  }

 private:
  struct PerThread {
    Scratch<uint32_t> panels;
    Scratch<float> sums;
  };
  // Some pairs times some panels.
  struct Task {
    const bf16* in;
    uint32_t rows;  // of the whole input
    uint32_t first_pair, end_pair;
    uint32_t panel, panels;
    uint32_t next_panel;  // the first of the group that this thread probably reads next
  };

  void MultiplyRows(ThreadPool& pool, Matrix<const bf16> in, const PanelSource& source,
                    absl::FunctionRef<void(const PanelProduct&)> take) {
    const auto pairs = DivUp(static_cast<uint32_t>(in.rows), kRowPair);
    const size_t pair_values = size_t{kRowPair} * source.k();
    bf16* packed = rows_.Get(pairs * pair_values);
    pool.ParallelFor(static_cast<int>(pairs), [&](int pair, int) {
      const size_t row = size_t{kRowPair} * pair;
      PackRowPair(in.row(row), in.stride, static_cast<uint32_t>(in.rows - row), source.k(),
                  packed + pair * pair_values);
    });
    const Cut cut(pairs, source.panels(), TasksFor(pool));
    const auto panel_of = [&](uint32_t task) { return cut.panels.begin(task / cut.pairs.count); };
    // Neighbouring tasks share weights.
    pool.ParallelFor(static_cast<int>(cut.pairs.count * cut.panels.count),
                     [&](int task, int thread) {
                       const uint32_t block = task % cut.pairs.count;
                       const uint32_t panel = panel_of(task);
                       const uint32_t likely_next = panel_of(task + pool.threads());
                       Run({.in = packed,
                            .rows = static_cast<uint32_t>(in.rows),
                            .first_pair = cut.pairs.begin(block),
                            .end_pair = cut.pairs.begin(block + 1),
                            .panel = panel,
                            .panels = panel_of(task + cut.pairs.count) - panel,
                            .next_panel = likely_next < source.panels() ? likely_next : panel},
                           source, take, threads_[thread]);
                     });
  }

  static void Run(const Task& task, const PanelSource& source,
                  absl::FunctionRef<void(const PanelProduct&)> take, PerThread& mine) {
    const uint32_t k = source.k();
    const uint32_t part = DivUp(DivUp(k, DivUp(k, kPartK)), kPartMultiple) * kPartMultiple;
    const size_t stride = size_t{task.panels} * kPanelColumns;
    // Sums of all rows where k comes in parts.
    const uint32_t pairs = task.end_pair - task.first_pair;
    float* sums = mine.sums.Get((part < k ? pairs : 1) * kRowPair * stride);
    uint32_t* space = mine.panels.Get(size_t{part} / 2 * kPanelColumns * task.panels);
    for (uint32_t begin = 0; begin < k; begin += part) {
      const uint32_t end = std::min(k, begin + part);
      const PanelBlock panels = source.Read(task.panel, task.panels, begin, end, space);
      // The weights that are read after this part are fetched meanwhile, or the front of them if
      // there are few pairs.
      const uint32_t* later =
          end < k ? source.Held(task.panel, end) : source.Held(task.next_panel, 0);
      const uint32_t lines = later == nullptr ? 0 : std::min(kMostLines, DivUp(kStepK, pairs));
      for (uint32_t i = 0; i < pairs; ++i) {
        const uint32_t pair = task.first_pair + i;
        const uint32_t rows = std::min(kRowPair, task.rows - pair * kRowPair);
        const bf16* at = task.in + (size_t{pair} * k + begin) * kRowPair;
        float* out = sums + (part < k ? i : 0) * kRowPair * stride;
        const size_t fetched = i * size_t{lines} * kLineWords * ((end - begin) / kStepK);
        MultiplyTiles({.rows = at,
                       .next_rows = i + 1 < pairs ? at + size_t{k} * kRowPair : nullptr,
                       .one_tile = rows <= kRowPair / 2,
                       .k = end - begin,
                       .panels = panels.words,
                       .panel_stride = panels.stride,
                       .num_panels = task.panels,
                       .later_panels = lines == 0 ? nullptr : later + fetched,
                       .later_lines = lines,
                       .out = out,
                       .out_stride = stride,
                       .accumulate = begin > 0});
        if (end < k) continue;
        take({.row = pair * kRowPair,
              .rows = rows,
              .panel = task.panel,
              .panels = task.panels,
              .values = out,
              .stride = stride});
      }
    }
  }

  Scratch<bf16> rows_;
  std::vector<PerThread> threads_;
};

}  // namespace

std::unique_ptr<PromptGemm> MakeAmxGemm(const KernelTable& kernels) {
  return std::make_unique<AmxGemm>(kernels);
}

}  // namespace folio::kernels::cpu::fast
