#include "tests/parity/parity_cache.h"

#include <algorithm>
#include <limits>

#include "tests/kernels/kernel_data.h"

namespace folio::parity {

using kernels::AppendSlot;
using kernels::AttentionItem;
using kernels::bf16;
using kernels::ResidentItem;
using kernels::ScoreKind;
using kernels::cpu::ActivationBuffer;
using kernels::cpu::Activations;

ParityCache::ParityCache(const Vectors& vectors, const kernels::cpu::CpuOps& ops)
    : v_(vectors),
      ops_(ops),
      geometry_{.num_layers = 1, .num_kv_heads = v_.kv_heads, .head_dim = v_.head_dim},
      shape_{.heads = v_.heads, .kv_heads = v_.kv_heads, .head_dim = v_.head_dim} {
  // Every second page, the last one first, so that no kernel can take neighbours for granted.
  const uint32_t blocks = geometry_.pages_for(v_.tokens);
  for (uint32_t block = 0; block < blocks; ++block) table_.push_back(2 * (blocks - block) - 1);
  memory_.resize(2 * blocks * geometry_.page_bytes() / sizeof(bf16), bf16::Round(1e30F));
  board_.resize(geometry_.score_board_floats(2 * blocks));
  pages_ = {reinterpret_cast<std::byte*>(memory_.data()), board_.data(), 2 * blocks, geometry_};
  q_.resize(size_t{v_.tokens} * v_.heads * v_.head_dim * ops_.activation_bytes());
}

// The vectors' keys and queries count as turned by their positions: angle 0 leaves them alone.
void ParityCache::Append(ScoreKind kind) {
  const uint32_t dim = v_.head_dim;
  const uint32_t columns = (v_.heads + 2 * v_.kv_heads) * dim;
  std::vector<float> qkv(size_t{v_.tokens} * columns);
  std::vector<AppendSlot> slots;
  for (uint32_t t = 0; t < v_.tokens; ++t) {
    float* row = &qkv[size_t{t} * columns];
    const uint32_t seen = v_.tokens - v_.window;
    for (uint32_t i = 0; t >= seen && i < v_.heads * dim; ++i) {
      row[i] = v_.queries[size_t{t - seen} * v_.heads * dim + i].ToFloat();
    }
    for (uint32_t i = 0; i < v_.kv_heads * dim; ++i) {
      const size_t from = (size_t{i / dim} * v_.tokens + t) * dim + i % dim;
      row[v_.heads * dim + i] = v_.keys[from].ToFloat();
      row[(v_.heads + v_.kv_heads) * dim + i] = v_.values[from].ToFloat();
    }
    slots.push_back({.page = table_[t / geometry_.page_tokens],
                     .offset = t % geometry_.page_tokens,
                     .position = 0,
                     .score = kind});
  }
  const std::vector<float> cos(dim / 2, 1.0F);
  const std::vector<float> sin(dim / 2, 0.0F);
  ops_.RopeAppendScore(pool_, kernels::cpu::AsMatrix<const float>(qkv, v_.tokens, columns), shape_,
                       {cos.data(), sin.data(), 1}, slots, pages_,
                       {q_.data(), v_.tokens, v_.heads * dim});
}

AttentionItem ParityCache::WindowItem(uint32_t first_row) const {
  return {.first_row = first_row, .rows = v_.window, .pages = table_.data(), .context = v_.tokens};
}

Rows ParityCache::Scores(ScoreKind kind) {
  std::fill(board_.begin(), board_.end(), std::numeric_limits<float>::quiet_NaN());
  Append(kind);
  if (kind == ScoreKind::kKeyDifference) {
    ops_.ScoreResident(pool_, {ResidentItem{table_.data(), v_.tokens}}, pages_);
  } else if (kind == ScoreKind::kWindowAttention) {
    ops_.ScoreWindow(pool_, {q_.data(), v_.tokens, v_.heads * v_.head_dim},
                     {kernels::WindowItem{WindowItem(v_.tokens - v_.window), 3, 0}}, shape_,
                     pages_);
  }
  Rows rows(v_.tokens);
  for (uint32_t t = 0; t < v_.tokens; ++t) {
    const float* scores = pages_.page_scores(table_[t / geometry_.page_tokens]) +
                          size_t{t % geometry_.page_tokens} * v_.kv_heads;
    rows[t].assign(scores, scores + v_.kv_heads);
  }
  return rows;
}

void ParityCache::SetUnitValues(uint32_t first) {
  for (uint32_t t = 0; t < v_.tokens; ++t) {
    for (uint32_t head = 0; head < v_.kv_heads; ++head) {
      bf16* value =
          pages_.values(table_[t / geometry_.page_tokens]) +
          (size_t{head} * geometry_.page_tokens + t % geometry_.page_tokens) * v_.head_dim;
      std::fill(value, value + v_.head_dim, bf16::Round(0));
      if (t >= first && t - first < v_.head_dim) value[t - first] = bf16::Round(1);
    }
  }
}

Rows ParityCache::AttentionMass() {
  Append(ScoreKind::kNone);
  const uint32_t columns = v_.heads * v_.head_dim;
  const uint32_t group = v_.heads / v_.kv_heads;
  ActivationBuffer q(ops_, v_.window, columns, v_.queries.data());
  ActivationBuffer out(ops_, v_.window, columns);
  Rows mass(v_.tokens, std::vector<float>(v_.kv_heads));
  for (uint32_t first = 0; first < v_.tokens; first += v_.head_dim) {
    SetUnitValues(first);
    ops_.Attention(pool_, {.prompt_rows = v_.window}, q.view(), {WindowItem(0)}, shape_, pages_,
                   out.view());
    for (uint32_t t = first; t < std::min(v_.tokens, first + v_.head_dim); ++t) {
      for (uint32_t i = 0; i < v_.window * v_.heads; ++i) {
        const float share = out.at(size_t{i} * v_.head_dim + t - first);
        mass[t][i % v_.heads / group] += share / static_cast<float>(v_.window * group);
      }
    }
  }
  return mass;
}

}  // namespace folio::parity
