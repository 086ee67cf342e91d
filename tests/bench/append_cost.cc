#include "tests/bench/append_cost.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/thread_pool.h"
#include "tests/bench/machine_limits.h"

namespace folio::bench {
namespace {

// Microseconds a row to turn, append and (if wanted) score it, over one layer's worth of a prompt.
double AppendMicrosPerRow(const model::ModelConfig& config, int threads, const std::string& kernels,
                          kernels::ScoreKind score) {
  constexpr uint32_t kRows = 512;
  auto ops = kernels::cpu::MakeFastOps(kernels);
  if (!ops.ok()) return 0;
  kernels::cpu::ThreadPool pool(threads);
  const uint32_t half = config.head_dim / 2;
  const std::vector<float> ones(size_t{kRows} * half, 1.0f), zeros(size_t{kRows} * half, 0.0f);
  const kernels::cpu::RopeTable rope = {ones.data(), zeros.data(), kRows};
  kernels::PoolView view;
  view.geometry = {.num_layers = 1, .num_kv_heads = config.kv_heads, .head_dim = config.head_dim};
  view.num_pages = view.geometry.pages_for(kRows);
  std::vector<std::byte> pages(view.num_pages * view.geometry.page_bytes());
  std::vector<float> board(view.num_pages * view.geometry.scores_per_page());
  view.pages = pages.data();
  view.scores = board.data();
  const size_t cols = size_t{config.heads + 2 * config.kv_heads} * config.head_dim;
  std::vector<float> qkv(kRows * cols, 0.5f);
  std::vector<kernels::AppendSlot> slots(kRows);
  const uint32_t page_tokens = view.geometry.page_tokens;
  for (uint32_t i = 0; i < kRows; ++i) slots[i] = {i / page_tokens, i % page_tokens, i, score};
  std::vector<std::byte> q(kRows * size_t{config.heads} * config.head_dim *
                           (*ops)->activation_bytes());
  const double seconds = FastestSeconds(200, [&] {
    (*ops)->RopeAppendScore(pool, {qkv.data(), kRows, cols, cols},
                            {config.heads, config.kv_heads, config.head_dim}, rope, slots, view,
                            {q.data(), kRows, config.heads * config.head_dim});
  });
  return 1e6 * seconds / kRows;
}

}  // namespace

double ScoringMicros(const model::ModelConfig& config, int threads, const std::string& kernels,
                     kernels::ScoreKind score) {
  return (AppendMicrosPerRow(config, threads, kernels, score) -
          AppendMicrosPerRow(config, threads, kernels, kernels::ScoreKind::kNone)) *
         config.num_layers;
}

}  // namespace folio::bench
