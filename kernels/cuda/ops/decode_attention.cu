// A block has the query heads of one KV head of one row, and its warps take the pages in turn. For
// 16 tokens a warp multiplies queries and keys, and then values and weights.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/device/append.cuh"
#include "kernels/cuda/device/attention_parts.cuh"
#include "kernels/cuda/device/attention_state.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
#include "kernels/cuda/device/packs.cuh"
#include "kernels/cuda/device/pages.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/decode_attention.h"

namespace folio::kernels::cuda {
namespace {

using device::kMostGroup;
using device::kNoScore;
using device::kPiece;
using device::kWarp;
using device::Pages;
using device::Part;
using device::RowParts;
using device::ValueParts;
using device::WarpState;

constexpr uint32_t kWarps = device::kAttentionWarps;
constexpr uint32_t kThreads = kWarps * kWarp;
// A context is not split further than into so many pieces for each warp of a block.
constexpr uint32_t kLeastPieces = 2;
// Split contexts have at most so many parts for each block that runs at once.
constexpr uint32_t kMostParts = 8;

// Blocks that a multiprocessor runs at once, which their registers bound.
constexpr uint32_t BlocksEach(uint32_t dim) { return dim == 64 ? 4 : dim == 128 ? 3 : 2; }

// The number of blocks that share a context. Blocks run in turns of `slots`, and the last turn may
// leave most of the GPU idle. More and shorter blocks fill it better, but their parts must be
// added.
uint32_t SplitsOf(uint32_t blocks, uint32_t slots) {
  constexpr double kAdding = 0.03;  // of the time, for each part
  uint32_t best = 1;
  double least = device::Blocks(blocks, slots);
  for (uint32_t splits = 2; splits <= device::kMostSplits && blocks * splits <= kMostParts * slots;
       ++splits) {
    const double turns = device::Blocks(blocks * splits, slots);
    const double time = turns / splits * (1 + kAdding * (splits - 1));
    if (time < least) {
      best = splits;
      least = time;
    }
  }
  return best;
}
// Counters of arrived blocks come first, in front of parts.
size_t CounterBytes(uint32_t slots) {
  return (size_t{kMostParts} * slots * sizeof(uint32_t) + 255) / 256 * 256;
}

// The queries of rows, which are rotated already.
struct StoredQueries {
  static constexpr bool kAppends = false;
  const bf16* q;
  size_t stride;

  template <int kHeadDim>
  __device__ __forceinline__ void Load(uint32_t row, uint32_t kv_head, uint32_t group,
                                       const Pages<bf16>& pages, RowParts<kHeadDim, 1>& to) const {
    to.Load(q + row * stride + size_t{kv_head} * group * kHeadDim, threadIdx.x % kWarp / 4, 0,
            group);
  }
};

// The queries, keys and values of rows before they are rotated and stored.
struct NewRows {
  static constexpr bool kAppends = true;
  const float* qkv;
  size_t stride;
  uint32_t heads;
  RopeTable rope;
  const AppendSlot* slots;

  // A lane has both numbers of each pair that is rotated. Rows that are stored nowhere have zeros.
  template <int kHeadDim>
  __device__ __forceinline__ void Load(uint32_t row, uint32_t kv_head, uint32_t group,
                                       const Pages<bf16>& pages, RowParts<kHeadDim, 1>& to) const {
    constexpr int kHalf = kHeadDim / 2;
    const AppendSlot slot = slots[row];
    const uint32_t head = threadIdx.x % kWarp / 4;
    const bool there = head < group && slot.page < pages.num_pages;
    const float* from = qkv + row * stride + (size_t{kv_head} * group + head) * kHeadDim;
    const size_t angle = size_t{there ? slot.position : 0} * kHalf;
#pragma unroll
    for (int part = 0; part < kHalf / 32; ++part) {
      const uint32_t at = part * 32 + threadIdx.x % 4 * 8;
      float a[8] = {}, b[8] = {}, cos[8], sin[8];
      if (there) device::Load(from + at, a);
      if (there) device::Load(from + at + kHalf, b);
      device::Load(rope.cos + angle + at, cos);
      device::Load(rope.sin + angle + at, sin);
      device::Pack<bf16, 8> first, second;
      device::RotatePairs(a, b, cos, sin, first, second);
      to.at[0][part] = device::Pairs(first.at);
      to.at[0][part + kHalf / 32] = device::Pairs(second.at);
    }
  }

  // Stores the row's token of this KV head, by one warp, which may read it then.
  __device__ __forceinline__ void Append(uint32_t row, uint32_t kv_head,
                                         const Pages<bf16>& pages) const {
    const AppendSlot slot = slots[row];
    if (slot.page >= pages.num_pages) return;
    const uint32_t half = pages.head_dim / 2;
    const float* key = qkv + row * stride + (size_t{heads} + kv_head) * pages.head_dim;
    const float* value = key + size_t{pages.kv_heads} * pages.head_dim;
    const float score =
        device::AppendHead(key, value, rope.cos + size_t{slot.position} * half,
                           rope.sin + size_t{slot.position} * half, slot, kv_head, pages);
    if (threadIdx.x % kWarp == 0 && pages.scores != nullptr && device::IsAppended(slot.score)) {
      pages.score(slot.page, slot.offset)[kv_head] = score;
    }
    __syncwarp();
  }
};

// The pieces of 16 tokens [first, end) that a row attends to.
struct Pieces {
  uint32_t passed, first, end;

  __device__ __forceinline__ Pieces(uint32_t context, uint32_t window)
      : passed(window != 0 && context > window ? context - window : 0),
        first(passed / kPiece),
        end((context + kPiece - 1) / kPiece) {}
  // Tokens at the front of a piece that the row does not attend to.
  __device__ uint32_t Before(uint32_t piece) const { return piece == first ? passed % kPiece : 0; }
};

template <int kHeadDim, typename Rows>
__global__ void __launch_bounds__(kThreads, BlocksEach(kHeadDim))
    DecodeAttentionKernel(Rows rows, DecodeTables tables, Pages<bf16> pages, uint32_t group,
                          float scale, Part<kHeadDim>* parts, uint32_t* counters, bf16* out,
                          size_t out_stride) {
  __shared__ Part<kHeadDim> warps[kWarps];
  __shared__ device::Shares shares;
  device::LetNextKernelStart();
  const uint32_t kv_head = blockIdx.x;
  const uint32_t row = blockIdx.y;
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t group_of_lane = threadIdx.x % kWarp / 4;
  device::WaitForEarlierKernels();

  RowParts<kHeadDim, 1> queries;
  rows.Load(row, kv_head, group, pages, queries);
  const int32_t* table = tables.pages + tables.page_starts[row];
  const auto count = static_cast<uint32_t>(tables.page_starts[row + 1] - tables.page_starts[row]);
  const uint32_t per_page = pages.page_tokens / kPiece;
  const uint32_t context =
      (count - 1) * pages.page_tokens + static_cast<uint32_t>(tables.last_tokens[row]);
  const Pieces pieces(context, tables.window);
  const uint32_t all = pieces.end - pieces.first;
  // The grid does not know the context. A short one has fewer blocks than there are.
  const uint32_t of_block = kLeastPieces * kWarps;
  const uint32_t splits = min(uint32_t{gridDim.z}, (all + of_block - 1) / of_block);
  if (blockIdx.z >= splits) return;
  const auto begin = pieces.first + static_cast<uint32_t>(uint64_t{all} * blockIdx.z / splits);
  const auto end = pieces.first + static_cast<uint32_t>(uint64_t{all} * (blockIdx.z + 1) / splits);
  WarpState<kHeadDim> state;
  // The next page is known before its keys are wanted, so that a piece waits for memory once.
  uint32_t piece = begin + warp;
  uint32_t next_page = piece < end ? static_cast<uint32_t>(table[piece / per_page]) : 0;
  for (; piece < end; piece += kWarps) {
    const uint32_t page = next_page;
    const uint32_t token = piece % per_page * kPiece;
    const uint32_t tokens = min(context - piece * kPiece, kPiece);
    if constexpr (Rows::kAppends) {
      if (piece == pieces.end - 1) rows.Append(row, kv_head, pages);  // the last of these tokens
    }
    RowParts<kHeadDim, 2> keys;
    ValueParts<kHeadDim> values;
    keys.Load(pages.key(page, kv_head, token), group_of_lane, 8, tokens);
    values.Load(pages.value(page, kv_head, token), tokens);
    if (piece + kWarps < end) next_page = static_cast<uint32_t>(table[(piece + kWarps) / per_page]);
    state.Add(queries, keys, values, scale, pieces.Before(piece), tokens);
  }
  state.Store(warps[warp]);
  __syncthreads();
  bf16* to = out + row * out_stride + size_t{kv_head} * group * kHeadDim;
  const auto put_result = [&](uint32_t head, uint32_t i, float(&sums)[4]) {
#pragma unroll
    for (float& sum : sums) sum /= shares.weights[head];
    device::StoreAll(sums, to + head * kHeadDim + i);
  };
  if (splits == 1) return device::AddParts<false>(warps, kWarps, group, shares, put_result);
  const size_t of_row = size_t{row} * gridDim.x + kv_head;
  Part<kHeadDim>* of_blocks = parts + of_row * gridDim.z;
  Part<kHeadDim>& own = of_blocks[blockIdx.z];
  device::AddParts<false>(warps, kWarps, group, shares,
                          [&](uint32_t head, uint32_t i, const float(&sums)[4]) {
                            device::StoreAll(sums, &own.values[head][i]);
                          });
  if (threadIdx.x < group) {
    own.most[threadIdx.x] = shares.most[threadIdx.x];
    own.weights[threadIdx.x] = shares.weights[threadIdx.x];
  }
  if (!device::IsLast(counters + of_row, splits)) return;
  device::AddParts<true>(of_blocks, splits, group, shares, put_result);
}

template <int kHeadDim, typename Rows>
absl::Status Start(Stream stream, const Rows& rows, uint32_t count, const DecodeTables& tables,
                   const AttentionShape& shape, const DevicePool& pool,
                   const DecodeAttentionSpace& space, const Tensor& out) {
  const uint32_t slots = BlocksEach(kHeadDim) * space.processors;
  const uint32_t splits = SplitsOf(count * shape.kv_heads, slots);
  // Weights are powers of 2, which are faster than those of e.
  const float scale = static_cast<float>(M_LOG2E) / std::sqrt(static_cast<float>(kHeadDim));
  auto* counters = static_cast<uint32_t*>(space.memory);
  auto* parts = reinterpret_cast<Part<kHeadDim>*>(static_cast<std::byte*>(space.memory) +
                                                  CounterBytes(slots));
  return device::LaunchOverlapping("DecodeAttention", stream, dim3(shape.kv_heads, count, splits),
                                   kThreads, DecodeAttentionKernel<kHeadDim, Rows>, rows, tables,
                                   Pages<bf16>(pool), shape.heads / shape.kv_heads, scale, parts,
                                   counters, static_cast<bf16*>(out.data), out.stride);
}

template <typename Rows>
auto* StartOf(uint32_t head_dim) {
  return head_dim == 64 ? Start<64, Rows> : head_dim == 128 ? Start<128, Rows> : Start<256, Rows>;
}

// `count` rows with so many columns.
absl::Status Check(uint32_t count, uint32_t cols, const AttentionShape& shape,
                   const DevicePool& pool, const DecodeAttentionSpace& space, const Tensor& out) {
  const CacheGeometry& geometry = pool.view.geometry;
  if (!ServesDecodeAttention(shape, pool)) {
    return device::Unserved(
        "attention of decode rows serves bf16 pages of a multiple of 16 tokens, heads of 64, 128 "
        "or 256, and up to 8 query heads for a KV head");
  }
  const uint32_t out_cols = shape.heads * shape.head_dim;
  if (geometry.head_dim != shape.head_dim || geometry.num_kv_heads != shape.kv_heads ||
      cols != out_cols || out.cols != out_cols || out.rows < count || out.type != DataType::kBf16 ||
      out.stride % 4 != 0) {
    return device::Unserved("queries, pages or results of decode rows have another shape or type");
  }
  if (space.memory == nullptr || space.processors == 0) {
    return device::Unserved("attention of decode rows needs memory for parts");
  }
  return absl::OkStatus();
}

}  // namespace

bool ServesDecodeAttention(const AttentionShape& shape, const DevicePool& pool) {
  return pool.type == DataType::kBf16 && pool.view.geometry.page_tokens % kPiece == 0 &&
         ServesHeads(shape.head_dim) && shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0 &&
         shape.heads / shape.kv_heads <= kMostGroup;
}

size_t DecodeAttentionBytes(const AttentionShape& shape, uint32_t processors) {
  const size_t part = (2 + size_t{shape.head_dim}) * kMostGroup * sizeof(float);
  const uint32_t slots = BlocksEach(shape.head_dim) * processors;
  return CounterBytes(slots) + size_t{kMostParts} * slots * part;
}

absl::Status DecodeAttention(Stream stream, ConstTensor q, const DecodeTables& tables,
                             const AttentionShape& shape, const DevicePool& pool,
                             const DecodeAttentionSpace& space, Tensor out) {
  absl::Status status = Check(q.rows, q.cols, shape, pool, space, out);
  if (!status.ok()) return status;
  if (q.type != DataType::kBf16 || q.stride % 8 != 0) {
    return device::Unserved("queries of decode rows must be bf16 and begin at 16 bytes");
  }
  const StoredQueries rows{static_cast<const bf16*>(q.data), q.stride};
  return StartOf<StoredQueries>(shape.head_dim)(stream, rows, q.rows, tables, shape, pool, space,
                                                out);
}

absl::Status AppendDecodeAttention(Stream stream, const DecodeRows& in, const DecodeTables& tables,
                                   const AttentionShape& shape, const DevicePool& pool,
                                   const DecodeAttentionSpace& space, Tensor out) {
  const ConstTensor& qkv = in.qkv;
  const uint32_t other = 2 * shape.kv_heads * shape.head_dim;
  absl::Status status = Check(in.slots.size, qkv.cols - other, shape, pool, space, out);
  if (!status.ok()) return status;
  if (qkv.type != DataType::kFloat32 || qkv.stride % 4 != 0 || qkv.rows < in.slots.size) {
    return device::Unserved(
        "queries, keys and values of decode rows must be float32 and begin at 16 bytes");
  }
  const NewRows rows{static_cast<const float*>(qkv.data), qkv.stride, shape.heads, in.rope,
                     in.slots.data};
  return StartOf<NewRows>(shape.head_dim)(stream, rows, in.slots.size, tables, shape, pool, space,
                                          out);
}

}  // namespace folio::kernels::cuda
