#include "kernels/cpu/fast/prompt_gemm.h"

#include <omp.h>

#include <algorithm>
#include <compare>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/fast/scratch.h"
#include "services/common/check.h"

namespace folio::kernels::cpu::fast {
namespace {

using dnnl::memory;

constexpr uint32_t kRowBlock = 128;     // rows of one product
constexpr uint32_t kRowStep = 16;       // a last block is filled up to a multiple of this
constexpr uint32_t kPanelColumns = 32;  // columns of the blocked layout
// Panels of one product: weights of a block stay in the second-level cache.
constexpr uint32_t kPanels = 12;

struct Shape {
  uint32_t rows, columns, k;
  size_t out_stride;
  bool accumulate;
  auto operator<=>(const Shape&) const = default;
};

// One compiled product; immutable, executed by any thread.
struct Product {
  dnnl::matmul primitive;
  memory::desc in, weight, out, scratch;
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

  // Whether this CPU gets a kernel of its own and not the reference.
  bool IsFast() const {
    const auto made = Compile({kRowBlock, kPanels * kPanelColumns, 64, 384, false});
    return made.second.rfind("brg", 0) == 0;
  }

  bool Serves(const PanelWeights& weight) const override { return weight.k() % 32 == 0; }

  void Linear(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
              Matrix<float> out, bool accumulate) override {
    ForBlocks(pool, in, weight, [&](const Block& block, PerThread& mine) {
      const uint32_t column = block.panel * kPanelColumns;
      const uint32_t columns =
          std::min<uint32_t>(block.panels * kPanelColumns, weight.n() - column);
      const bf16* rows = Rows(in, block, mine);
      const Shape shape{block.filled, columns, weight.k(), out.stride, accumulate};
      float* to = out.row(block.row) + column;
      if (block.filled == block.rows) {
        Run(shape, rows, weight.panel(block.panel), to, mine);
        return;
      }
      // The same product in memory that has room for all rows.
      float* room = mine.result.Get(size_t{block.filled} * out.stride);
      for (uint32_t r = 0; accumulate && r < block.rows; ++r) {
        std::copy_n(to + r * out.stride, columns, room + r * out.stride);
      }
      Run(shape, rows, weight.panel(block.panel), room, mine);
      for (uint32_t r = 0; r < block.rows; ++r) {
        std::copy_n(room + r * out.stride, columns, to + r * out.stride);
      }
    });
  }

  void Gated(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
             Matrix<bf16> out) override {
    ForBlocks(pool, in, weight, [&](const Block& block, PerThread& mine) {
      const uint32_t columns = block.panels * kPanelColumns;
      float* both = mine.result.Get(size_t{block.filled} * columns);
      Run({block.filled, columns, weight.k(), columns, false}, Rows(in, block, mine),
          weight.panel(block.panel), both, mine);
      const uint32_t first = block.panel * weight.panel_columns();
      const uint32_t outputs = std::min(block.panels * weight.panel_columns(), weight.n() - first);
      for (uint32_t r = 0; r < block.rows; ++r) {
        kernels_.swiglu(both + size_t{r} * columns, outputs, out.row(block.row + r) + first);
      }
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

  template <typename Body>
  void ForBlocks(ThreadPool& pool, const Matrix<const bf16>& in, const PanelWeights& weight,
                 Body body) {
    if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
    const uint32_t rows = (in.rows + kRowBlock - 1) / kRowBlock;
    const uint32_t columns = (weight.num_panels() + kPanels - 1) / kPanels;
    // Neighbouring tasks share weights.
    pool.ParallelFor(static_cast<int>(rows * columns), [&](int task, int thread) {
      omp_set_num_threads(1);  // of this thread's calls: the pool is the parallelism
      Block block;
      block.row = task % rows * kRowBlock;
      block.rows = std::min<uint32_t>(kRowBlock, in.rows - block.row);
      block.filled = (block.rows + kRowStep - 1) / kRowStep * kRowStep;
      block.panel = task / rows * kPanels;
      block.panels = std::min(kPanels, weight.num_panels() - block.panel);
      body(block, threads_[thread]);
    });
  }

  // The block's rows, filled up with zeros where the matrix ends before.
  static const bf16* Rows(const Matrix<const bf16>& in, const Block& block, PerThread& mine) {
    if (block.filled == block.rows) return in.row(block.row);
    bf16* copy = mine.rows.Get(size_t{block.filled} * in.cols);
    std::copy_n(in.row(block.row), size_t{block.rows} * in.cols, copy);
    std::fill(copy + size_t{block.rows} * in.cols, copy + size_t{block.filled} * in.cols, bf16{});
    return copy;
  }

  std::pair<Product, std::string> Compile(const Shape& shape) const {
    const memory::dim m = shape.rows, n = shape.columns, k = shape.k;
    Product product;
    product.in = memory::desc({m, k}, memory::data_type::bf16, memory::format_tag::ab);
    product.weight = memory::desc({k, n}, memory::data_type::bf16, memory::format_tag::BA16a32b2a);
    product.out = memory::desc({m, n}, memory::data_type::f32,
                               memory::dims{static_cast<memory::dim>(shape.out_stride), 1});
    dnnl::primitive_attr attributes;
    // Else oneDNN keeps scratch per creating thread, and primitives could not be shared.
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc made = Describe(engine_, product, attributes);
    product.scratch = made.scratchpad_desc();
    product.primitive = dnnl::matmul(made);
    return {std::move(product), made.impl_info_str()};
  }

  const Product& Find(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    const auto it = products_.find(shape);
    if (it != products_.end()) return it->second;
    return products_.emplace(shape, Compile(shape).first).first->second;
  }

  void Run(const Shape& shape, const bf16* in, const uint32_t* panels, float* out,
           PerThread& mine) {
    const Product& product = Find(shape);
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
    if (gemm->IsFast()) return gemm;
  } catch (const dnnl::error&) {
    // This build of oneDNN does not know the layout: the own kernels do all.
  }
  return nullptr;
}

}  // namespace folio::kernels::cpu::fast
