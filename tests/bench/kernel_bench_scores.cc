#include "tests/bench/kernel_bench_scores.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/bench/machine_limits.h"

namespace folio::bench {
namespace {

using kernels::AttentionShape;
using kernels::bf16;
using kernels::ScoreKind;
using kernels::ThreadPool;
using namespace kernels::cpu;  // NOLINT: the subject of this program

constexpr uint32_t kLayers = 30, kHeads = 9, kKvHeads = 3, kDim = 64;
constexpr AttentionShape kShape{kHeads, kKvHeads, kDim};

// Pages of random keys and values in shuffled order, as a pool lies in memory.
class Pages {
 public:
  explicit Pages(uint32_t count) : scores_(kGeometry.score_board_floats(count)), table_(count) {
    const size_t elements = count * kGeometry.page_bytes() / sizeof(bf16);
    // Asks for huge pages, as the worker does for a pool.
    const size_t bytes = (elements * sizeof(bf16) + kHugePage - 1) / kHugePage * kHugePage;
    memory_.reset(static_cast<bf16*>(std::aligned_alloc(kHugePage, bytes)));
    madvise(memory_.get(), bytes, MADV_HUGEPAGE);
    std::minstd_rand random(5);
    for (size_t i = 0; i < elements; ++i) {
      memory_.get()[i] = bf16::Round(static_cast<float>(random()) / 2147483648.0f - 0.4f);
    }
    std::iota(table_.begin(), table_.end(), 0u);
    std::shuffle(table_.begin(), table_.end(), random);
    view_ = {reinterpret_cast<std::byte*>(memory_.get()), scores_.data(), count, kGeometry};
  }

  const kernels::PoolView& view() const { return view_; }
  const uint32_t* table(uint32_t first) const { return &table_[first]; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;
  static constexpr CacheGeometry kGeometry{kLayers, kKvHeads, kDim, 16};
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<bf16, Free> memory_;
  std::vector<float> scores_;
  std::vector<uint32_t> table_;
  kernels::PoolView view_;
};

void Append(const CpuOps& ops, ThreadPool& threads) {
  constexpr uint32_t kRows = 512;
  constexpr uint32_t kCols = (kHeads + 2 * kKvHeads) * kDim;
  const Pages pages(kRows / 16);
  std::vector<float> qkv(size_t{kRows} * kCols, 0.3f);
  const std::vector<float> angles(size_t{kRows} * kDim / 2, 0.5f);
  std::vector<float> q(size_t{kRows} * kHeads * kDim);
  std::printf("append of %u rows, all layers:", kRows);
  for (const auto& [name, kind] : {std::pair{"no score", ScoreKind::kNone},
                                   {"norm ratio", ScoreKind::kNormRatio},
                                   {"inverse key norm", ScoreKind::kInverseKeyNorm}}) {
    std::vector<kernels::AppendSlot> slots(kRows);
    for (uint32_t i = 0; i < kRows; ++i) slots[i] = {*pages.table(i / 16), i % 16, i, kind};
    const double seconds = FastestSeconds(60, [&] {
      ops.RopeAppendScore(threads, {qkv.data(), kRows, kCols, kCols}, kShape,
                          {angles.data(), angles.data(), kRows}, slots, pages.view(),
                          {q.data(), kRows, kHeads * kDim});
    });
    std::printf(" %s %.2f ms ", name, seconds * kLayers * 1e3);
  }
  std::printf("\n");
}

// Several sequences, so that the caches forget one while the others are scored.
void KeyDifference(const CpuOps& ops, ThreadPool& threads, double bandwidth, uint32_t context) {
  const uint32_t sequences = 8192 / context + 1;
  const uint32_t per_layer = context / 16;
  const Pages pages(sequences * kLayers * per_layer);
  const double seconds = FastestSeconds(8, [&] {
    for (uint32_t s = 0; s < sequences; ++s) {
      std::vector<kernels::ResidentItem> runs;
      for (uint32_t l = 0; l < kLayers; ++l) {
        runs.push_back({pages.table((s * kLayers + l) * per_layer), context});
      }
      ops.ScoreResident(threads, runs, pages.view());
    }
  });
  const double one = seconds / sequences;
  const double bytes = double{kLayers} * context * kKvHeads * kDim * 2;
  std::printf("key difference, %u tokens, all layers: %.0f us, %.1f GB/s of keys (%.0f%%)\n",
              context, one * 1e6, bytes / one * 1e-9, 100 * bytes / one / bandwidth);
}

// A prompt's end or one page's fill, of several sequences in turn, each without what it read before
// in the caches.
void Unrotated(const CpuOps& ops, ThreadPool& threads, double bandwidth, uint32_t context,
               bool page) {
  const uint32_t sequences = 16384 / context;
  const uint32_t per_layer = context / 16;
  const Pages pages(sequences * kLayers * per_layer);
  std::vector<uint32_t> positions(context);
  std::iota(positions.begin(), positions.end(), 0u);
  const std::vector<float> angles(size_t{context} * kDim / 2, 0.5f);
  const kernels::RopeTable rope = {angles.data(), angles.data(), context};
  const uint32_t first = page ? context - 16 : 0;
  const double seconds = FastestSeconds(8, [&] {
    for (uint32_t s = 0; s < sequences; ++s) {
      std::vector<kernels::UnrotatedItem> runs;
      for (uint32_t l = 0; l < kLayers; ++l) {
        runs.push_back({pages.table((s * kLayers + l) * per_layer), positions.data(), context,
                        first, page ? 16U : 1U});
      }
      ops.ScoreUnrotated(threads, runs, rope, pages.view());
    }
  });
  const double one = seconds / sequences;
  const double keys = page ? per_layer + 15 : context;
  const double bytes = kLayers * keys * kKvHeads * kDim * 2;
  std::printf(
      "unrotated difference, %s of %u tokens, all layers: %.0f us, %.1f GB/s of keys (%.0f%%)\n",
      page ? "a page" : "all", context, one * 1e6, bytes / one * 1e-9,
      100 * bytes / one / bandwidth);
}

}  // namespace

void BenchScores(const CpuOps& ops, ThreadPool& threads, double bandwidth) {
  Append(ops, threads);
  for (const uint32_t context : {1024, 4096}) {
    KeyDifference(ops, threads, bandwidth, context);
    for (const bool page : {false, true}) Unrotated(ops, threads, bandwidth, context, page);
  }
}

double BenchWindow(const CpuOps& ops, ThreadPool& threads, uint32_t window, uint32_t context) {
  const uint32_t per_layer = context / 16;
  const Pages pages(kLayers * per_layer);
  std::vector<float> q(size_t{window} * kHeads * kDim, 0.25f);  // either family reads small numbers
  const double seconds = FastestSeconds(6, [&] {
    for (uint32_t l = 0; l < kLayers; ++l) {
      const kernels::WindowItem run{{0, window, pages.table(l * per_layer), context}, 3, 0};
      ops.ScoreWindow(threads, {q.data(), window, kHeads * kDim}, {&run, 1}, kShape, pages.view());
    }
  });
  const double flops = 2.0 * kLayers * window * kHeads * kDim * context;
  std::printf("window attention, %u queries over %u tokens, all layers: %.1f ms, %.0f GFLOP/s\n",
              window, context, seconds * 1e3, flops / seconds * 1e-9);
  return seconds;
}

}  // namespace folio::bench
