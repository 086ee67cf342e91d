#include "kernels/cpu/fast/prompt_gemm.h"

#include <algorithm>
#include <compare>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/cpu/fast/scratch.h"
#include "services/base/check.h"

extern "C" void omp_set_num_threads(int);  // <omp.h> comes with one compiler and not the other

namespace folio::kernels::cpu::fast {
namespace {

using dnnl::memory;

constexpr uint32_t kRowStep = 16;       // a last block is filled up to a multiple of this
constexpr uint32_t kPanelColumns = 32;  // columns of the blocked layout

struct Shape {
  uint32_t rows, columns, k;
  auto operator<=>(const Shape&) const = default;
};

// One compiled product; immutable, executed by any thread.
struct Product {
  dnnl::matmul primitive;
  memory::desc in, weight, out, scratch;
  bool is_fast;
};

// oneDNN 3 dropped the operation descriptors between the memory's and the primitive's.
dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const Product& p,
                                      const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, p.in, p.weight, p.out, attributes};
#else
  return {dnnl::matmul::desc(p.in, p.weight, p.out), attributes, engine};
#endif
}

class OneDnnGemm final : public PromptGemm {
 public:
  explicit OneDnnGemm(const KernelTable& kernels)
      : kernels_(kernels), engine_(dnnl::engine::kind::cpu, 0) {}

  bool Serves(uint32_t panels, uint32_t k) override {
    if (k % 32 != 0) return false;
    const uint32_t rest = panels % kPanels;
    return (panels < kPanels || IsFast(kPanels, k)) && (rest == 0 || IsFast(rest, k));
  }
  // True if oneDNN has an optimised kernel for this CPU and shape.
  bool IsFast(uint32_t panels, uint32_t k) {
    return Find({kRowBlock, panels * kPanelColumns, k}).is_fast;
  }

  void Linear(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
              Matrix<float> out, bool accumulate) override {
    Multiply(pool, in, PanelsOf(weight), [&](const PanelProduct& part) {
      const uint32_t column = part.panel * kPanelColumns;
      const uint32_t columns = std::min(part.stride, weight.n() - column);
      for (uint32_t r = 0; r < part.rows; ++r) {
        kernels_.put(part.values + size_t{r} * part.stride, columns, out.row(part.row + r) + column,
                     accumulate);
      }
    });
  }

  void Gated(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
             Matrix<bf16> out) override {
    const auto gate = kernels_.gate[IndexOf(weight.activation())];
    Multiply(pool, in, PanelsOf(weight), [&](const PanelProduct& part) {
      const uint32_t first = part.panel * weight.panel_columns();
      const uint32_t outputs = std::min(part.panels * weight.panel_columns(), weight.n() - first);
      for (uint32_t r = 0; r < part.rows; ++r) {
        gate(part.values + size_t{r} * part.stride, outputs, out.row(part.row + r) + first);
      }
    });
  }

  // The result of a task is dense, which keeps it in the second-level cache, because oneDNN 2 has
  // no fast kernel for rows that lie further apart.
  void Multiply(ThreadPool& pool, Matrix<const bf16> in, const Panels& panels,
                absl::FunctionRef<void(const PanelProduct&)> take) override {
    if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
    const uint32_t rows = (in.rows + kRowBlock - 1) / kRowBlock;
    const uint32_t columns = (panels.count + kPanels - 1) / kPanels;
    const size_t panel_words = size_t{panels.k} / 2 * kPanelColumns;
    // Neighbouring tasks share weights.
    pool.ParallelFor(static_cast<int>(rows * columns), [&](int task, int thread) {
      omp_set_num_threads(1);  // of this thread's calls: the pool is the parallelism
      Block block;
      block.row = task % rows * kRowBlock;
      block.rows = std::min<uint32_t>(kRowBlock, in.rows - block.row);
      block.filled = (block.rows + kRowStep - 1) / kRowStep * kRowStep;
      block.panel = task / rows * kPanels;
      block.panels = std::min(kPanels, panels.count - block.panel);
      PerThread& mine = threads_[thread];
      const Shape shape{block.filled, block.panels * kPanelColumns, panels.k};
      float* result = mine.result.Get(size_t{shape.rows} * shape.columns);
      Run(Find(shape), Rows(in, block, mine), panels.words + block.panel * panel_words, result,
          mine);
      take({.row = block.row,
            .rows = block.rows,
            .panel = block.panel,
            .panels = block.panels,
            .values = result,
            .stride = shape.columns});
    });
  }

 private:
  struct PerThread {
    Scratch<std::byte> scratchpad;
    Scratch<bf16> rows;
    Scratch<float> result;
  };
  struct Block {
    uint32_t row, rows, filled;  // `filled`: rows up to the next step
    uint32_t panel, panels;
  };

  static Panels PanelsOf(const PanelWeights& weight) {
    return {weight.panel(0), weight.num_panels(), weight.k()};
  }

  // The block's rows, filled up with zeros where the matrix ends before.
  static const bf16* Rows(const Matrix<const bf16>& in, const Block& block, PerThread& mine) {
    if (block.filled == block.rows) return in.row(block.row);
    bf16* copy = mine.rows.Get(size_t{block.filled} * in.cols);
    std::copy_n(in.row(block.row), size_t{block.rows} * in.cols, copy);
    std::fill(copy + size_t{block.rows} * in.cols, copy + size_t{block.filled} * in.cols, bf16{});
    return copy;
  }

  Product Compile(const Shape& shape) const {
    const memory::dim m = shape.rows;
    const memory::dim n = shape.columns;
    const memory::dim k = shape.k;
    Product product;
    product.in = memory::desc({m, k}, memory::data_type::bf16, memory::format_tag::ab);
    product.weight = memory::desc({k, n}, memory::data_type::bf16, memory::format_tag::BA16a32b2a);
    product.out = memory::desc({m, n}, memory::data_type::f32, memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    // Otherwise oneDNN keeps scratch per creating thread, and threads could not share primitives.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc made = Describe(engine_, product, attributes);
    product.scratch = made.scratchpad_desc();
    product.primitive = dnnl::matmul(made);
    product.is_fast = std::strncmp(made.impl_info_str(), "brg", 3) == 0;
    return product;
  }

  const Product& Find(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    const auto it = products_.find(shape);
    if (it != products_.end()) return it->second;
    return products_.emplace(shape, Compile(shape)).first->second;
  }

  void Run(const Product& product, const bf16* in, const uint32_t* panels, float* out,
           PerThread& mine) const {
    const auto at = [&](const memory::desc& desc, const void* data) {
      return memory(desc, engine_, const_cast<void*>(data));
    };
    dnnl::stream stream(engine_);
    product.primitive.execute(
        stream, {{DNNL_ARG_SRC, at(product.in, in)},
                 {DNNL_ARG_WEIGHTS, at(product.weight, panels)},
                 {DNNL_ARG_DST, at(product.out, out)},
                 {DNNL_ARG_SCRATCHPAD,
                  at(product.scratch, mine.scratchpad.Get(product.scratch.get_size() + kAlign))}});
    stream.wait();
  }

  const KernelTable& kernels_;
  const dnnl::engine engine_;
  std::vector<PerThread> threads_;
  std::mutex mutex_;
  std::map<Shape, Product> products_;
};

}  // namespace

std::unique_ptr<PromptGemm> PromptGemm::Make(const KernelTable& kernels) {
  // Without bf16 arithmetic oneDNN converts weights in every call.
  if (std::strcmp(kernels.name, "avx512_bf16") != 0) return nullptr;
  try {
    auto gemm = std::make_unique<OneDnnGemm>(kernels);
    if (gemm->IsFast(kPanels, 64)) return gemm;
    return nullptr;
  } catch (const dnnl::error&) {
    return nullptr;  // this build of oneDNN does not know the layout, so our own kernels do all
  }
}

}  // namespace folio::kernels::cpu::fast
