#include "tests/bench/onednn_product.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <dnnl.hpp>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/bench/machine_limits.h"

namespace folio::bench {
namespace {

constexpr uint32_t kRowBlock = 128;

// One block of rows times all columns.
struct Block {
  dnnl::matmul product;
  std::unordered_map<int, dnnl::memory> arguments;
};

// oneDNN 3 dropped the operation descriptors between the memory's and the primitive's.
dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const dnnl::memory::desc& a,
                                      const dnnl::memory::desc& w, const dnnl::memory::desc& c) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, w, c};
#else
  return {dnnl::matmul::desc(a, w, c), engine};
#endif
}

}  // namespace

double OneDnnSeconds(kernels::cpu::ThreadPool& pool, uint32_t rows, uint32_t n, uint32_t k,
                     int repeats) try {
  using dnnl::memory;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<uint16_t> in(size_t{rows} * k, 0x3c24);
  std::vector<float> out(size_t{rows} * n);
  std::vector<Block> blocks;
  memory weights;
  for (uint32_t row = 0; row < rows; row += kRowBlock) {
    const memory::dim count = std::min(kRowBlock, rows - row);
    const memory::desc a({count, k}, memory::data_type::bf16, memory::format_tag::ab);
    const memory::desc w({k, n}, memory::data_type::bf16, memory::format_tag::any);
    const memory::desc c({count, n}, memory::data_type::f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc made = Describe(engine, a, w, c);
    // All blocks of one height like the same layout; another height gets weights of its own.
    if (!weights || weights.get_desc() != made.weights_desc()) {
      weights = memory(made.weights_desc(), engine);
      std::memset(weights.get_data_handle(), 0, made.weights_desc().get_size());
    }
    blocks.push_back({dnnl::matmul(made),
                      {{DNNL_ARG_SRC, memory(a, engine, in.data() + size_t{row} * k)},
                       {DNNL_ARG_WEIGHTS, weights},
                       {DNNL_ARG_DST, memory(c, engine, out.data() + size_t{row} * n)}}});
  }
  return FastestSeconds(repeats, [&] {
    pool.ParallelFor(static_cast<int>(blocks.size()), [&](int i, int) {
      omp_set_num_threads(1);  // of the calling thread only
      dnnl::stream stream(engine);
      blocks[i].product.execute(stream, blocks[i].arguments);
      stream.wait();
    });
  });
} catch (const dnnl::error&) {
  return -1;
}

}  // namespace folio::bench
