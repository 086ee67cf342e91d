// A block has the query heads of one KV head of one row, and its warps take the pages in turn. For
// 16 tokens a warp multiplies queries and keys, and then values and weights.
#include <algorithm>
#include <cmath>

#include "kernels/cuda/device/attention_state.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/numbers.cuh"
#include "kernels/cuda/device/overlap.cuh"
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

constexpr uint32_t kWarps = 4;
constexpr uint32_t kThreads = kWarps * kWarp;
// A multiprocessor has room for about so many blocks, and each should have one.
constexpr uint32_t kBlocksEach = 4;
constexpr uint32_t kMostSplits = 32;

// The number of blocks that share a context.
uint32_t SplitsOf(uint32_t blocks, uint32_t processors) {
  const uint32_t wanted = kBlocksEach * processors / std::max(blocks, 1u);
  return std::min(std::max(wanted, 1u), kMostSplits);
}
// Counters of arrived blocks come first, in front of parts.
size_t CounterBytes(uint32_t processors) {
  return (size_t{kBlocksEach} * processors * sizeof(uint32_t) + 255) / 256 * 256;
}

// The factors of parts in their sum, and the state of the sum, by query heads.
struct Shares {
  float of[kMostGroup][kMostSplits];
  float most[kMostGroup];
  float weights[kMostGroup];
};

// A warp computes the shares of a query head, and a lane those of a part. All threads take part.
template <int kHeadDim>
__device__ __forceinline__ void FindShares(const volatile Part<kHeadDim>* parts, uint32_t count,
                                           uint32_t group, Shares& shares) {
  static_assert(kWarps <= kWarp && kMostSplits <= kWarp);
  const uint32_t lane = threadIdx.x % kWarp;
  for (uint32_t head = threadIdx.x / kWarp; head < group; head += kWarps) {
    const float most = lane < count ? parts[lane].most[head] : kNoScore;
    const float largest = device::WarpMax(most);
    const float share = exp2f(most - largest);
    const float weights = lane < count ? parts[lane].weights[head] * share : 0.0f;
    const float sum = device::WarpSum(weights);
    if (lane < count) shares.of[head][lane] = share;
    if (lane == 0) {
      shares.most[head] = largest;
      shares.weights[head] = sum;
    }
  }
  __syncthreads();
}

// Adds the parts of a block's warps, or those of the blocks that share a context, which other
// blocks have written. Calls put(head, i, sum) for each number of each query head.
template <int kHeadDim, typename Put>
__device__ __forceinline__ void AddParts(const volatile Part<kHeadDim>* parts, uint32_t count,
                                         uint32_t group, Shares& shares, const Put& put) {
  FindShares(parts, count, group, shares);
  for (uint32_t i = threadIdx.x; i < group * kHeadDim; i += kThreads) {
    const uint32_t head = i / kHeadDim;
    float sum = 0;
    for (uint32_t part = 0; part < count; ++part) {
      sum += parts[part].values[head][i % kHeadDim] * shares.of[head][part];
    }
    put(head, i % kHeadDim, sum);
  }
}

// Whether all other blocks of the context have stored their parts. All threads take part.
__device__ __forceinline__ bool IsLast(uint32_t* counter, uint32_t splits) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1u) == splits - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return last;
}

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kHeadDim == 64 ? 4 : 3)
    DecodeAttentionKernel(const bf16* q, size_t q_stride, DecodeTables tables, Pages<bf16> pages,
                          uint32_t group, float scale, Part<kHeadDim>* parts, uint32_t* counters,
                          bf16* out, size_t out_stride) {
  __shared__ Part<kHeadDim> warps[kWarps];
  __shared__ Shares shares;
  device::LetNextKernelStart();
  const uint32_t kv_head = blockIdx.x;
  const uint32_t row = blockIdx.y;
  const uint32_t splits = gridDim.z;
  const uint32_t warp = threadIdx.x / kWarp;
  const uint32_t group_of_lane = threadIdx.x % kWarp / 4;
  const size_t first_head = size_t{kv_head} * group * kHeadDim;
  device::WaitForEarlierKernels();

  RowParts<kHeadDim, 1> queries;
  queries.Load(q + row * q_stride + first_head, group_of_lane, 0, group);
  const int32_t* table = tables.pages + tables.page_starts[row];
  const auto count = static_cast<uint32_t>(tables.page_starts[row + 1] - tables.page_starts[row]);
  const uint32_t per_page = pages.page_tokens / kPiece;
  const uint32_t context =
      (count - 1) * pages.page_tokens + static_cast<uint32_t>(tables.last_tokens[row]);
  const uint32_t all = (context + kPiece - 1) / kPiece;  // pieces of 16 tokens
  const auto begin = static_cast<uint32_t>(uint64_t{all} * blockIdx.z / splits);
  const auto end = static_cast<uint32_t>(uint64_t{all} * (blockIdx.z + 1) / splits);
  WarpState<kHeadDim> state;
  // The next page is known before its keys are wanted, so that a piece waits for memory once.
  uint32_t piece = begin + warp;
  uint32_t next_page = piece < end ? static_cast<uint32_t>(table[piece / per_page]) : 0;
  for (; piece < end; piece += kWarps) {
    const uint32_t page = next_page;
    const uint32_t token = piece % per_page * kPiece;
    const uint32_t tokens = min(context - piece * kPiece, kPiece);
    RowParts<kHeadDim, 2> keys;
    ValueParts<kHeadDim> values;
    keys.Load(pages.key(page, kv_head, token), group_of_lane, 8, tokens);
    values.Load(pages.value(page, kv_head, token), tokens);
    if (piece + kWarps < end) next_page = static_cast<uint32_t>(table[(piece + kWarps) / per_page]);
    state.Add(queries, keys, values, scale, tokens);
  }
  state.Store(warps[warp]);
  __syncthreads();
  bf16* to = out + row * out_stride + first_head;
  const auto put_result = [&](uint32_t head, uint32_t i, float sum) {
    device::Store(sum / shares.weights[head], to[head * kHeadDim + i]);
  };
  if (splits == 1) return AddParts(warps, kWarps, group, shares, put_result);
  const size_t of_row = size_t{row} * gridDim.x + kv_head;
  Part<kHeadDim>* of_blocks = parts + of_row * splits;
  Part<kHeadDim>& own = of_blocks[blockIdx.z];
  AddParts(warps, kWarps, group, shares,
           [&](uint32_t head, uint32_t i, float sum) { own.values[head][i] = sum; });
  if (threadIdx.x < group) {
    own.most[threadIdx.x] = shares.most[threadIdx.x];
    own.weights[threadIdx.x] = shares.weights[threadIdx.x];
  }
  if (IsLast(counters + of_row, splits)) AddParts(of_blocks, splits, group, shares, put_result);
}

template <int kHeadDim>
absl::Status Start(Stream stream, const ConstTensor& q, const DecodeTables& tables,
                   const AttentionShape& shape, const DevicePool& pool,
                   const DecodeAttentionSpace& space, const Tensor& out) {
  const uint32_t splits = SplitsOf(q.rows * shape.kv_heads, space.processors);
  // Weights are powers of 2, which are faster than those of e.
  const float scale = static_cast<float>(M_LOG2E) / std::sqrt(static_cast<float>(kHeadDim));
  auto* counters = static_cast<uint32_t*>(space.memory);
  auto* parts = reinterpret_cast<Part<kHeadDim>*>(static_cast<std::byte*>(space.memory) +
                                                  CounterBytes(space.processors));
  return device::LaunchOverlapping("DecodeAttention", stream, dim3(shape.kv_heads, q.rows, splits),
                                   kThreads, DecodeAttentionKernel<kHeadDim>,
                                   static_cast<const bf16*>(q.data), q.stride, tables,
                                   Pages<bf16>(pool), shape.heads / shape.kv_heads, scale, parts,
                                   counters, static_cast<bf16*>(out.data), out.stride);
}

}  // namespace

bool ServesDecodeAttention(const AttentionShape& shape, const DevicePool& pool) {
  return pool.type == DataType::kBf16 && pool.view.geometry.page_tokens % kPiece == 0 &&
         (shape.head_dim == 64 || shape.head_dim == 128) && shape.kv_heads > 0 &&
         shape.heads % shape.kv_heads == 0 && shape.heads / shape.kv_heads <= kMostGroup;
}

size_t DecodeAttentionBytes(const AttentionShape& shape, uint32_t processors) {
  const size_t part = (2 + size_t{shape.head_dim}) * kMostGroup * sizeof(float);
  return CounterBytes(processors) + kBlocksEach * processors * part;
}

absl::Status DecodeAttention(Stream stream, ConstTensor q, const DecodeTables& tables,
                             const AttentionShape& shape, const DevicePool& pool,
                             const DecodeAttentionSpace& space, Tensor out) {
  const CacheGeometry& geometry = pool.view.geometry;
  if (!ServesDecodeAttention(shape, pool)) {
    return device::Unserved(
        "attention of decode rows serves bf16 pages of a multiple of 16 tokens, heads of 64 or "
        "128, and up to 8 query heads for a KV head");
  }
  if (geometry.head_dim != shape.head_dim || geometry.num_kv_heads != shape.kv_heads ||
      q.cols != shape.heads * shape.head_dim || out.cols != q.cols || out.rows < q.rows ||
      q.type != DataType::kBf16 || out.type != DataType::kBf16 || q.stride % 8 != 0) {
    return device::Unserved("queries, pages or results of decode rows have another shape or type");
  }
  if (space.memory == nullptr || space.processors == 0) {
    return device::Unserved("attention of decode rows needs memory for parts");
  }
  return shape.head_dim == 64 ? Start<64>(stream, q, tables, shape, pool, space, out)
                              : Start<128>(stream, q, tables, shape, pool, space, out);
}

}  // namespace folio::kernels::cuda
