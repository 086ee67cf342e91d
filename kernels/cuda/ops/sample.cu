// This kernel has one block per row of logits. It takes the likeliest token or draws among the
// tokens that the filters leave, and writes log-probabilities on request.
#include "kernels/cuda/device/candidates.cuh"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/reduce.cuh"
#include "kernels/cuda/ops/sampling.h"

namespace folio::kernels::cuda {
namespace {

using device::BlockMax;
using device::BlockSum;
using device::Candidates;
using device::Choosing;
using device::IdOf;
using device::kSampleThreads;
using device::kSampleWarps;
using device::LeastRank;
using device::Rank;

static_assert(kMaxVocab == 1u << device::kIdBits);

// The first 53 bits of Philox4x32-10 of the counter (position, 0, 0, 0).
__device__ __forceinline__ uint64_t UniformBits(uint64_t seed, uint32_t position) {
  uint32_t counter[4] = {position, 0, 0, 0};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter[0] = static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0];
    counter[1] = static_cast<uint32_t>(product1);
    counter[2] = static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1];
    counter[3] = static_cast<uint32_t>(product0);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return ((uint64_t{counter[0]} << 32) | counter[1]) >> 11;
}

// The greatest rank below `below`, and whether all logits are finite.
__device__ __forceinline__ uint64_t BestBelow(const float* logits, uint32_t vocab, uint64_t below,
                                              Choosing& shared, bool& finite) {
  uint64_t best = 0;
  uint64_t infinite = 0;
  for (uint32_t id = threadIdx.x; id < vocab; id += kSampleThreads) {
    const uint64_t rank = Rank(logits[id], id);
    if (rank < below) best = max(best, rank);
    if ((__float_as_uint(logits[id]) & 0x7f800000u) == 0x7f800000u) infinite = 1;
  }
  finite = BlockMax<kSampleThreads>(infinite, shared.sums) == 0;
  return BlockMax<kSampleThreads>(best, shared.sums);
}

// Filters and then draws. All threads compute the same, and one writes the token.
__device__ __forceinline__ void SampleToken(const SampleRow& row, const float* logits,
                                            uint32_t vocab, uint32_t best, Choosing& shared,
                                            uint32_t& token) {
  constexpr double kSmallest = -745;  // of double's exponentials, as the CPU's
  double lowest = kSmallest;
  if (row.min_p > 0) lowest = min(max(log(static_cast<double>(row.min_p)), kSmallest), 0.0);
  Candidates of{logits, vocab, logits[best], 1.0 / row.temperature, lowest, 0};
  if (row.top_k > 0 && row.top_k < vocab) {
    of.least = LeastRank(
        of, row.top_k, [&](uint32_t id) { return of.one(id); }, shared);
  }
  if (row.top_p < 1) {
    const auto all = static_cast<double>(device::TotalWeight(of, shared));
    const auto wanted = static_cast<uint64_t>(ceil(static_cast<double>(row.top_p) * all));
    __syncthreads();
    const uint64_t least = LeastRank(
        of, max(wanted, uint64_t{1}), [&](uint32_t id) { return of.weight(id); }, shared);
    of.least = max(of.least, least);
  }
  const uint64_t total = device::TotalWeight(of, shared);
  // floor(uniform * total), where the uniform number has 53 bits.
  const uint64_t point = __umul64hi(UniformBits(row.seed, row.position) << 11, total);
  device::Draw(of, point, shared, token);
}

// ln(sum(exp(logit))).
__device__ __forceinline__ double LogSumExp(const float* logits, uint32_t vocab, float most,
                                            double* scratch) {
  double sum = 0;
  for (uint32_t id = threadIdx.x; id < vocab; id += kSampleThreads) {
    sum += expf(logits[id] - most);
  }
  return most + log(BlockSum<kSampleThreads>(sum, scratch));
}

__device__ __forceinline__ float EditedLogit(float logit, const RowEdits& row,
                                             const LogitEdit& edit) {
  if (edit.in_text != 0) {
    logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
  }
  // The products are rounded on their own, as the CPU's are.
  if (edit.in_answer > 0) {
    logit -= __fmul_rn(row.frequency_penalty, static_cast<float>(edit.in_answer));
    logit -= row.presence_penalty;
  }
  return logit + edit.bias;
}

// Writes the changed logits of a row. All threads of the block see them on return.
__device__ __forceinline__ void EditRow(const float* logits, uint32_t vocab, const RowEdits& row,
                                        Choosing& shared) {
  constexpr float kNever = -INFINITY;
  for (uint32_t id = threadIdx.x; id < vocab; id += kSampleThreads) {
    const uint32_t word = id / 32;
    const bool may = row.allowed == nullptr ||
                     (word < row.allowed_words && (row.allowed[word] >> (id % 32) & 1) != 0);
    row.edited[id] = may ? logits[id] : kNever;
  }
  bool& counted = shared.all;
  if (threadIdx.x == 0) counted = false;
  __syncthreads();
  const bool counts_last = row.last != nullptr;
  const uint32_t last = counts_last ? *row.last : 0;
  for (uint32_t i = threadIdx.x; i < row.count; i += kSampleThreads) {
    LogitEdit edit = row.tokens[i];
    if (counts_last && edit.token == last) {
      ++edit.in_answer;
      edit.in_text = 1;
      counted = true;
    }
    row.edited[edit.token] = EditedLogit(row.edited[edit.token], row, edit);
  }
  __syncthreads();
  if (counts_last && !counted && threadIdx.x == 0) {
    row.edited[last] = EditedLogit(row.edited[last], row, {last, 1, 1, 0});
  }
  __syncthreads();
}

// There is a block per row, so two on a multiprocessor are enough, and they may use more registers
// than four could.
__global__ void __launch_bounds__(kSampleThreads, 2)
    SampleKernel(const float* all_logits, size_t stride, uint32_t vocab, const SampleRow* rows,
                 SampledToken* out, TopLogprob* top, uint32_t max_top) {
  __shared__ Choosing shared;
  __shared__ double scratch[kSampleWarps];
  __shared__ uint32_t token;
  const SampleRow row = rows[blockIdx.x];
  const float* logits = all_logits + blockIdx.x * stride;
  bool finite = true;
  uint64_t rank = BestBelow(logits, vocab, ~uint64_t{0}, shared, finite);
  const uint32_t best = IdOf(rank);
  if (!finite) {
    if (threadIdx.x == 0) out[blockIdx.x] = {0, 0, 0, 1};
    return;
  }
  const float* from = logits;
  uint32_t likeliest = best;
  // They are read here, not with the row, because few rows have any and registers are scarce.
  const RowEdits& edits = rows[blockIdx.x].edits;
  if (row.target < 0 && edits.edited != nullptr) {
    EditRow(logits, vocab, edits, shared);
    from = edits.edited;
    likeliest = IdOf(BestBelow(from, vocab, ~uint64_t{0}, shared, finite));
    if (from[likeliest] == -INFINITY) {
      if (threadIdx.x == 0) out[blockIdx.x] = {0, 0, 1, 0};
      return;
    }
  }
  if (threadIdx.x == 0) token = row.target >= 0 ? static_cast<uint32_t>(row.target) : likeliest;
  __syncthreads();
  if (row.target < 0 && row.temperature > 0 && row.top_k != 1) {
    SampleToken(row, from, vocab, likeliest, shared, token);
    __syncthreads();
  }
  if (row.top_logprobs < 0) {
    if (threadIdx.x == 0) out[blockIdx.x] = {token, 0, 1, 1};
    return;
  }
  const double log_sum = LogSumExp(logits, vocab, logits[best], scratch);
  const auto logprob = [&](uint32_t id) { return static_cast<float>(logits[id] - log_sum); };
  if (threadIdx.x == 0) out[blockIdx.x] = {token, logprob(token), 1, 1};
  const uint32_t wanted = min(min(static_cast<uint32_t>(row.top_logprobs), max_top), vocab);
  for (uint32_t i = 0; i < wanted; ++i) {
    if (threadIdx.x == 0) {
      top[size_t{blockIdx.x} * max_top + i] = {IdOf(rank), logprob(IdOf(rank))};
    }
    rank = BestBelow(logits, vocab, rank, shared, finite);
  }
}

}  // namespace

absl::Status Sample(Stream stream, ConstTensor logits, DeviceArray<SampleRow> rows,
                    SampledToken* out, TopLogprob* top, uint32_t max_top) {
  if (logits.type != DataType::kFloat32 || logits.rows < rows.size) {
    return device::Unserved("each token needs one row of float32 logits");
  }
  if (logits.cols == 0 || logits.cols > kMaxVocab) {
    return device::Unserved("the vocabulary must have 1 to 262144 tokens");
  }
  return device::Launch("Sample", stream, dim3(rows.size), kSampleThreads, SampleKernel,
                        static_cast<const float*>(logits.data), logits.stride, logits.cols,
                        rows.data, out, top, max_top);
}

}  // namespace folio::kernels::cuda
