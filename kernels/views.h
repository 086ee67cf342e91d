// This header has the arguments of kernels on any device. They are views, which borrow memory and
// own none.
#ifndef FOLIO_KERNELS_VIEWS_H_
#define FOLIO_KERNELS_VIEWS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/bf16.h"
#include "services/base/geometry.h"
#include "services/base/score_kind.h"

namespace folio::kernels {

// A row-major matrix [rows, cols], with `stride` elements from one row to the next.
template <typename T>
struct Matrix {
  T* data = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  size_t stride = 0;

  T* row(size_t r) const { return data + r * stride; }
};

// One rank's swap memory, which has room for copies of pages and of their scores. It is memory of
// the host, also where the pages are on a GPU.
struct SwapView {
  std::byte* memory = nullptr;  // pages [slot], then float[channel][token][kv_head] [slot]
  uint32_t num_slots = 0;
  float* board = nullptr;  // the pool's score board, at its address on the host
};

// One rank's pages and the score board that all ranks share, as they are mapped in this process.
struct PoolView {
  std::byte* pages = nullptr;  // [page][K, V][kv_head][token][head_dim] bf16, the rank's heads
  float* scores = nullptr;     // [channel][page][token][board head], or null if it writes none
  uint32_t num_pages = 0;
  CacheGeometry geometry;         // of the rank
  uint32_t all_kv_heads = 0;      // columns of the board, or 0 if this rank has all heads
  uint32_t first_board_head = 0;  // the rank's first column; its others follow
  SwapView swap = {};             // beside the pages

  // [kv_head][token][head_dim] of one page.
  bf16* keys(uint32_t page) const {
    return reinterpret_cast<bf16*>(pages + size_t{page} * geometry.page_bytes());
  }
  bf16* values(uint32_t page) const {
    return keys(page) + size_t{geometry.num_kv_heads} * geometry.page_tokens * geometry.head_dim;
  }
  // Floats from one token's row of the board to the next.
  uint32_t score_stride() const { return all_kv_heads != 0 ? all_kv_heads : geometry.num_kv_heads; }
  // The rank's columns of one page, [token][kv_head], with rows `score_stride` apart.
  float* page_scores(uint32_t page, uint32_t channel = 0) const {
    const size_t row = (size_t{channel} * num_pages + page) * geometry.page_tokens;
    return scores + row * score_stride() + first_board_head;
  }
  std::byte* swap_page(uint32_t slot) const {
    return swap.memory + size_t{slot} * geometry.page_bytes();
  }
  float* swap_scores(uint32_t slot) const {
    return reinterpret_cast<float*>(swap.memory + size_t{swap.num_slots} * geometry.page_bytes()) +
           slot * geometry.score_board_floats(1);
  }
};

// Angles of the rotary embedding in Hugging Face's (rotate-half) order. The pair (i, i + head_dim /
// 2) turns by position * inverse_frequency[i]. Values are float32 cos and sin of the float32
// product, as in the reference.
struct RopeTable {
  const float* cos = nullptr;  // [positions, head_dim / 2]
  const float* sin = nullptr;
  uint32_t positions = 0;
};

struct AttentionShape {
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
};

using folio::ScoreKind;  // services/base/score_kind.h describes each

// Rows of a batch: decode rows come first, then prompt rows.
struct RowSplit {
  uint32_t decode_rows = 0;
  uint32_t prompt_rows = 0;
  uint32_t total() const { return decode_rows + prompt_rows; }
};

// The place of one batch row's K and V in one layer.
struct AppendSlot {
  uint32_t page = 0;
  uint32_t offset = 0;    // token in the page
  uint32_t position = 0;  // logical position: the RoPE angle
  ScoreKind score = ScoreKind::kNone;
};

// Neighbouring batch rows of one sequence in one layer. Row i of the item (0-based) attends the
// first `context - rows + 1 + i` slots of the table, and in a layer with a window the last `window`
// of these. That is causal attention aligned to the bottom right, which stays right after evictions
// because slots keep the order of tokens. A layer with a window loses no token within it, so that
// slots are as far from each other there as positions.
struct AttentionItem {
  uint32_t first_row = 0;
  uint32_t rows = 0;
  const uint32_t* pages = nullptr;  // the layer's table
  uint32_t context = 0;             // resident tokens, with the item's own rows
  uint32_t window = 0;              // with the row's own token. 0: rows attend from slot 0 on

  // Row `row` attends to slots [first_slot, end_slot).
  uint32_t end_slot(uint32_t row) const { return context - rows + 1 + row; }
  uint32_t first_slot(uint32_t row) const {
    return window != 0 && end_slot(row) > window ? end_slot(row) - window : 0;
  }
};

// All resident tokens of one sequence, in one layer.
struct ResidentItem {
  const uint32_t* pages = nullptr;  // the layer's table
  uint32_t tokens = 0;
};

// Prompts read the keys of a table in tiles of so many slots, or of a part of it, from slot 0 on.
inline constexpr uint32_t kKeyTile = 64;

// The most neighbours on each side that window attention may be pooled over.
inline constexpr uint32_t kMaxNeighbours = 1 << 16;

// The last query rows of a prompt, whose attention scores all resident tokens of one layer. Layers
// with a window are not scored, because they lose no token to a policy.
struct WindowItem {
  AttentionItem queries;
  uint32_t neighbours = 0;  // on each side, of which a token takes the maximum
  uint32_t channel = 0;     // of the score board
};

// Tokens [first, tokens) of one sequence, in one layer, to be scored against the keys of every
// `stride`-th token behind the first page.
struct UnrotatedItem {
  const uint32_t* pages = nullptr;      // the layer's table
  const uint32_t* positions = nullptr;  // [tokens] logical positions: RoPE angles
  uint32_t tokens = 0;                  // resident
  uint32_t first = 0;
  uint32_t stride = 1;
};

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_VIEWS_H_
