#include "tests/bench/append_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/threads/thread_pool.h"
#include "tests/bench/machine_limits.h"

namespace folio::bench {
namespace {

constexpr uint32_t kRows = 512;

// One layer's worth of a prompt, to be turned and appended.
class Append {
 public:
  Append(const model::ModelConfig& config, const kernels::cpu::CpuOps& ops)
      : ops_(ops),
        shape_{config.heads, config.kv_heads, config.head_dim},
        cols_(size_t{config.heads + 2 * config.kv_heads} * config.head_dim),
        ones_(size_t{kRows} * config.head_dim / 2, 1.0f),
        zeros_(ones_.size(), 0.0f),
        qkv_(kRows * cols_, 0.5f),
        q_(kRows * size_t{config.heads} * config.head_dim * ops.activation_bytes()) {
    view_.geometry = {
        .num_layers = 1, .num_kv_heads = config.kv_heads, .head_dim = config.head_dim};
    view_.num_pages = view_.geometry.pages_for(kRows);
    pages_.resize(view_.num_pages * view_.geometry.page_bytes());
    board_.resize(view_.num_pages * view_.geometry.scores_per_page());
    view_.pages = pages_.data();
    view_.scores = board_.data();
  }

  void Run(kernels::ThreadPool& pool, kernels::ScoreKind score) {
    std::vector<kernels::AppendSlot> slots(kRows);
    const uint32_t page_tokens = view_.geometry.page_tokens;
    for (uint32_t i = 0; i < kRows; ++i) slots[i] = {i / page_tokens, i % page_tokens, i, score};
    ops_.RopeAppendScore(pool, {qkv_.data(), kRows, cols_, cols_}, shape_,
                         {ones_.data(), zeros_.data(), kRows}, slots, view_,
                         {q_.data(), kRows, shape_.heads * shape_.head_dim});
  }

 private:
  const kernels::cpu::CpuOps& ops_;
  const kernels::AttentionShape shape_;
  const size_t cols_;
  const std::vector<float> ones_, zeros_;
  std::vector<float> qkv_, board_;
  std::vector<std::byte> q_, pages_;
  kernels::PoolView view_;
};

}  // namespace

double ScoringMicros(const model::ModelConfig& config, int threads, const std::string& kernels,
                     kernels::ScoreKind score) {
  auto ops = kernels::cpu::MakeFastOps(kernels);
  if (!ops.ok()) return 0;
  kernels::ThreadPool pool(threads);
  Append append(config, **ops);
  // In turn, on the same memory: what the machine does meanwhile happens to both.
  constexpr int kTurns = 400;
  double with = FastestSeconds(1, [&] { append.Run(pool, score); });
  double without = with;
  for (int turn = 0; turn < kTurns; ++turn) {
    with = std::min(with, FastestSeconds(1, [&] { append.Run(pool, score); }));
    without =
        std::min(without, FastestSeconds(1, [&] { append.Run(pool, kernels::ScoreKind::kNone); }));
  }
  return 1e6 * (with - without) / kRows * config.num_layers;
}

double ClearingMicros(const model::ModelConfig& config, int threads) {
  constexpr uint32_t kPages = 4096;  // a batch of grants
  constexpr size_t kPoolBytes = size_t{1} << 30;
  kernels::PoolView view;
  view.geometry = {.num_layers = 1, .num_kv_heads = config.kv_heads, .head_dim = config.head_dim};
  view.num_pages = static_cast<uint32_t>(kPoolBytes / view.geometry.page_bytes());
  std::vector<std::byte> pages(view.num_pages * view.geometry.page_bytes(), std::byte{1});
  view.pages = pages.data();
  kernels::ThreadPool pool(threads);
  double fastest = 1e9;
  for (uint32_t first = 0; first + kPages <= view.num_pages; first += kPages) {
    fastest = std::min(fastest, FastestSeconds(1, [&] {
                         pool.ParallelFor(kPages, [&](int task, int) {
                           kernels::cpu::ClearPage(view, first + static_cast<uint32_t>(task));
                         });
                       }));
  }
  return 1e6 * fastest / kPages / view.geometry.page_tokens * config.num_layers;
}

}  // namespace folio::bench
