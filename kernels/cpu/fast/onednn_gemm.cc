#include <algorithm>
#include <compare>
#include <cstring>
#include <dnnl.hpp>
#include <map>
#include <mutex>
#include <vector>

#include "kernels/cpu/fast/div_up.h"
#include "kernels/cpu/fast/prompt_gemm.h"
#include "kernels/cpu/fast/scratch.h"
#include "services/base/check.h"

extern "C" void omp_set_num_threads(int);  // <omp.h> comes with one compiler and not the other

namespace folio::kernels::cpu::fast {
namespace {

using dnnl::memory;

constexpr uint32_t kRowBlock = 128;  // rows of one product
constexpr uint32_t kRowStep = 16;    // a last block is filled up to a multiple of this
// Panels of one product, at most: weights of a block stay in the second-level cache.
constexpr uint32_t kPanels = 12;
constexpr uint32_t kMadeBytes = 1 << 20;  // of panels that a thread makes for itself, about

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

uint32_t MadePanels(uint32_t k) {
  return std::clamp<uint32_t>(kMadeBytes / (k * uint32_t{sizeof(bf16)} * kPanelColumns), 1,
                              kPanels);
}

// For 16 lanes and a k of whole 32s, panels are oneDNN's blocked layout BA16a32b2a.
class OneDnnGemm final : public PromptGemm {
 public:
  explicit OneDnnGemm(const KernelTable& kernels)
      : PromptGemm(kernels), engine_(dnnl::engine::kind::cpu, 0) {}

  bool Serves(uint32_t panels, uint32_t k) override {
    if (k % 32 != 0) return false;
    for (const uint32_t most : {kPanels, MadePanels(k)}) {
      const uint32_t rest = panels % most;
      if (panels >= most && !IsFast(most, k)) return false;
      if (rest != 0 && !IsFast(rest, k)) return false;
    }
    return true;
  }
  // True if oneDNN has an optimised kernel for this CPU and shape.
  bool IsFast(uint32_t panels, uint32_t k) {
    return Find({kRowBlock, panels * kPanelColumns, k}).is_fast;
  }

  // Results are dense, which keeps them in the second-level cache, because oneDNN 2 has no fast
  // kernel for rows that lie further apart.
  void Multiply(ThreadPool& pool, Matrix<const bf16> in, const PanelSource& source,
                absl::FunctionRef<void(const PanelProduct&)> take) override {
    if (threads_.size() < static_cast<size_t>(pool.threads())) threads_.resize(pool.threads());
    const bool held = source.Held(0, 0) != nullptr;
    const uint32_t most = held ? kPanels : MadePanels(source.k());
    const uint32_t groups = DivUp(source.panels(), most);
    const uint32_t blocks = DivUp(static_cast<uint32_t>(in.rows), kRowBlock);
    // Panels that have to be made serve as many rows as leaves work for all threads.
    const uint32_t parts = held ? blocks : std::min(blocks, DivUp(TasksFor(pool), groups));
    // Neighbouring tasks share weights.
    pool.ParallelFor(static_cast<int>(parts * groups), [&](int task, int thread) {
      omp_set_num_threads(1);  // of this thread's calls: the pool is the parallelism
      PerThread& mine = threads_[thread];
      const uint32_t part = task % parts;
      const uint32_t panel = task / parts * most;
      const uint32_t panels = std::min(most, source.panels() - panel);
      const uint32_t* words = Panels(source, panel, panels, mine);
      for (uint32_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
        const uint32_t row = block * kRowBlock;
        const uint32_t rows = std::min(kRowBlock, static_cast<uint32_t>(in.rows) - row);
        const uint32_t filled = DivUp(rows, kRowStep) * kRowStep;
        const Shape shape{filled, panels * kPanelColumns, source.k()};
        float* result = mine.result.Get(size_t{shape.rows} * shape.columns);
        Run(Find(shape), Rows(in, row, rows, filled, mine), words, result, mine);
        take({.row = row,
              .rows = rows,
              .panel = panel,
              .panels = panels,
              .values = result,
              .stride = shape.columns});
      }
    });
  }

 private:
  struct PerThread {
    Scratch<std::byte> scratchpad;
    Scratch<bf16> rows;
    Scratch<uint32_t> panels;
    Scratch<float> result;
  };

  // One panel behind the other.
  static const uint32_t* Panels(const PanelSource& source, uint32_t first, uint32_t count,
                                PerThread& mine) {
    const size_t words = size_t{source.k()} / 2 * kPanelColumns;
    const PanelBlock block =
        source.Read(first, count, 0, source.k(), mine.panels.Get(words * count));
    FOLIO_CHECK(block.stride == words);
    return block.words;
  }

  // Some rows, up to `filled` of them zeros.
  static const bf16* Rows(const Matrix<const bf16>& in, uint32_t row, uint32_t count,
                          uint32_t filled, PerThread& mine) {
    if (filled == count) return in.row(row);
    bf16* copy = mine.rows.Get(size_t{filled} * in.cols);
    std::copy_n(in.row(row), size_t{count} * in.cols, copy);
    std::fill(copy + size_t{count} * in.cols, copy + size_t{filled} * in.cols, bf16{});
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

  const dnnl::engine engine_;
  std::vector<PerThread> threads_;
  std::mutex mutex_;
  std::map<Shape, Product> products_;
};

}  // namespace

std::unique_ptr<PromptGemm> MakeOneDnnGemm(const KernelTable& kernels) {
  try {
    auto gemm = std::make_unique<OneDnnGemm>(kernels);
    if (gemm->IsFast(kPanels, 64)) return gemm;
    return nullptr;
  } catch (const dnnl::error&) {
    return nullptr;  // this build of oneDNN does not know the layout, so our own kernels do all
  }
}

}  // namespace folio::kernels::cpu::fast
