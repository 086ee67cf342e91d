// Decode attention over pages on a GPU, alone: K and V read per second as a share of what a copy in
// the same run moves per second, and FlashInfer's own decode on the same shapes as a peer. A JSON
// object per line: first the device, then each shape. `share_of_flashinfer` is our rate of bytes by
// its rate; above 1 ours is faster.
//
//   gpu_attention_bench [least KV bytes, default 64 MiB]
//
// Pages lie in random order. The L2 cache is overwritten before each measured run. Exits with 77
// where there is no GPU.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/ops/decode_attention.h"
#include "tests/bench/flashinfer_decode.h"
#include "tests/bench/or_die.h"
#include "tests/gpu/need_device.h"

namespace folio::bench {
namespace {

using kernels::AttentionShape;
using kernels::cuda::AttentionMemory;
using kernels::cuda::AttentionPartsBytes;
using kernels::cuda::AttentionPlan;
using kernels::cuda::DataType;
using kernels::cuda::DecodeAttention;
using kernels::cuda::DecodeAttentionBytes;
using kernels::cuda::DevicePool;
using kernels::cuda::kAttentionPlanBytes;
using kernels::cuda::LayerTables;
using kernels::cuda::PlanAttention;
using kernels::cuda::RunAttention;
using kernels::cuda::Tensor;

constexpr uint32_t kPageTokens = 16;
constexpr size_t kFlushBytes = size_t{256} << 20;
constexpr int kRuns = 15;

struct Model {
  const char* name;
  uint32_t heads, kv_heads, head_dim;
};
constexpr Model kModels[] = {{"Llama-3.2-1B", 32, 8, 64},
                             {"Llama-3.2-3B", 24, 8, 128},
                             {"Llama-3.1-8B", 32, 8, 128},
                             {"SmolLM2-135M", 9, 3, 64}};

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "gpu_attention_bench: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    Check(cudaMalloc(&data_, bytes), ("memory of " + std::to_string(bytes) + " bytes").c_str());
  }
  template <typename T>
  explicit Memory(const std::vector<T>& values) : Memory(values.size() * sizeof(T)) {
    Check(cudaMemcpy(data_, values.data(), bytes_, cudaMemcpyHostToDevice), "copy to the device");
  }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  template <typename T = void>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_ = nullptr;
};

// Median seconds of `work`, on a cold cache.
double Seconds(const Memory& flush, const std::function<void()>& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  Check(cudaEventCreate(&begin), "event");
  Check(cudaEventCreate(&end), "event");
  std::vector<float> times;
  for (int run = -2; run < kRuns; ++run) {
    Check(cudaMemsetAsync(flush.as(), run & 0xff, flush.bytes(), nullptr), "flush");
    Check(cudaEventRecord(begin, nullptr), "event");
    work();
    Check(cudaEventRecord(end, nullptr), "event");
    Check(cudaEventSynchronize(end), "run");
    float milliseconds = 0;
    Check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    if (run >= 0) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2] * 1e-3;
}

// Bytes read and written per second by a copy of 2 GiB.
double CopyBandwidth(const Memory& flush) {
  const size_t bytes = size_t{2} << 30;
  const Memory from(bytes), to(bytes);
  Check(cudaMemset(from.as(), 1, bytes), "memset");
  const double seconds = Seconds(flush, [&] {
    Check(cudaMemcpyAsync(to.as(), from.as(), bytes, cudaMemcpyDeviceToDevice, nullptr), "copy");
  });
  return 2.0 * static_cast<double>(bytes) / seconds;
}

// What a decode step of `batch` sequences of `context` tokens asks of one layer.
struct Step {
  Step(const Model& model, uint32_t batch, uint32_t context, std::mt19937& random)
      : shape{model.heads, model.kv_heads, model.head_dim}, batch(batch) {
    const auto of_each = static_cast<int32_t>((context + kPageTokens - 1) / kPageTokens);
    for (uint32_t i = 0; i <= batch; ++i) {
      row_starts.push_back(static_cast<int32_t>(i));
      page_starts.push_back(static_cast<int32_t>(i) * of_each);
    }
    pages.resize(size_t{batch} * static_cast<uint32_t>(of_each));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    last_tokens.assign(batch, static_cast<int32_t>((context - 1) % kPageTokens + 1));
    contexts.assign(batch, static_cast<int32_t>(context));
  }
  CacheGeometry geometry() const {
    return {.num_layers = 1,
            .num_kv_heads = shape.kv_heads,
            .head_dim = shape.head_dim,
            .page_tokens = kPageTokens};
  }

  AttentionShape shape;
  uint32_t batch;
  std::vector<int32_t> row_starts, page_starts, pages, last_tokens, contexts;
};

enum class Kernel { kOurs, kFlashInfersPrefill };

// Over Folio's pages.
double AttentionSeconds(const Step& step, Kernel kernel, const AttentionMemory& memory,
                        uint32_t processors, const Memory& flush) {
  const uint32_t cols = step.shape.heads * step.shape.head_dim;
  const Memory pool(step.pages.size() * step.geometry().page_bytes());
  Check(cudaMemset(pool.as(), 0x3c, pool.bytes()), "memset");  // some 0.01 as bf16
  const Memory q(size_t{step.batch} * cols * 2), out(q.bytes());
  Check(cudaMemset(q.as(), 0x3c, q.bytes()), "memset");
  const Memory row_starts(step.row_starts), page_starts(step.page_starts), pages(step.pages),
      last_tokens(step.last_tokens);
  const DevicePool device{
      {pool.as<std::byte>(), nullptr, static_cast<uint32_t>(step.pages.size()), step.geometry()}};
  const Memory space(DecodeAttentionBytes(step.shape, processors));
  Check(cudaMemset(space.as(), 0, space.bytes()), "memset");
  const AttentionPlan plan = OrDie(PlanAttention(nullptr, {step.row_starts, step.contexts},
                                                 step.shape, kPageTokens, {}, memory));
  const auto tensor = [&](const Memory& data) {
    return Tensor{data.as(), DataType::kBf16, step.batch, cols, cols};
  };
  const LayerTables tables{pages.as<int32_t>(), page_starts.as<int32_t>(),
                           last_tokens.as<int32_t>(), row_starts.as<int32_t>()};
  return Seconds(flush, [&] {
    if (kernel == Kernel::kOurs) {
      OrDie(DecodeAttention(nullptr, tensor(q),
                            {tables.pages, tables.page_starts, tables.last_tokens}, step.shape,
                            device, {space.as(), processors}, tensor(out)));
    } else {
      OrDie(RunAttention(nullptr, plan, tensor(q), tables, device, memory, tensor(out)));
    }
  });
}

// Its own layout: K and V apart. A kernel that did nothing would be fast: the result is looked at.
double FlashInferSeconds(const Step& step, const AttentionMemory& memory, const Memory& flush) {
  const Memory keys(step.pages.size() * step.geometry().page_bytes() / 2), values(keys.bytes());
  const Memory q(size_t{step.batch} * step.shape.heads * step.shape.head_dim * 2), out(q.bytes());
  for (const Memory* memory : {&keys, &values, &q}) {
    Check(cudaMemset(memory->as(), 0x3c, memory->bytes()), "memset");
  }
  Check(cudaMemset(out.as(), 0, out.bytes()), "memset");
  const Memory page_starts(step.page_starts), pages(step.pages), last_tokens(step.last_tokens);
  const FlashInferPages tables{keys.as(), values.as(), pages.as<int32_t>(),
                               page_starts.as<int32_t>(), last_tokens.as<int32_t>()};
  const FlashInferPlan plan =
      OrDie(PlanFlashInfer(nullptr, step.page_starts, step.shape, kPageTokens, memory));
  const double seconds = Seconds(
      flush, [&] { OrDie(RunFlashInfer(nullptr, plan, q.as(), tables, memory, out.as())); });
  std::vector<uint16_t> got(out.bytes() / sizeof(uint16_t));
  Check(cudaMemcpy(got.data(), out.as(), out.bytes(), cudaMemcpyDeviceToHost), "copy");
  // The mean of equal numbers, but for the last bit.
  if (std::any_of(got.begin(), got.end(), [](int bits) { return std::abs(bits - 0x3c3c) > 1; })) {
    std::fprintf(stderr, "gpu_attention_bench: FlashInfer's decode gave another result\n");
    std::exit(1);
  }
  return seconds;
}

// The peer's part of a record.
std::string PeerJson(const Step& step, const AttentionMemory& memory, const Memory& flush,
                     double bytes, double our_seconds) {
  if (!FlashInferServes(step.shape)) return "\"flashinfer\": \"not served\"";
  const double seconds = FlashInferSeconds(step, memory, flush);
  char json[160];
  std::snprintf(json, sizeof json,
                "\"flashinfer\": \"measured\", \"flashinfer_us\": %.1f, "
                "\"flashinfer_gb_s\": %.1f, \"share_of_flashinfer\": %.3f",
                seconds * 1e6, bytes / seconds / 1e9, seconds / our_seconds);
  return json;
}

void Run(size_t min_bytes) {
  cudaDeviceProp device{};
  Check(cudaGetDeviceProperties(&device, 0), "device");
  const Memory flush(kFlushBytes);
  const double copy = CopyBandwidth(flush);
  std::printf("{\"device\": \"%s\", \"copy_gb_s\": %.1f}\n", device.name, copy / 1e9);

  size_t most = 0;
  for (const Model& model : kModels) {
    most = std::max(most, AttentionPartsBytes({model.heads, model.kv_heads, model.head_dim},
                                              static_cast<uint32_t>(device.multiProcessorCount)));
  }
  const Memory parts(most), plan(kAttentionPlanBytes);
  void* pinned = nullptr;
  Check(cudaMallocHost(&pinned, kAttentionPlanBytes), "page-locked memory");
  const AttentionMemory memory{parts.as(), parts.bytes(), plan.as(), pinned, plan.bytes()};
  std::mt19937 random(1);
  for (const Model& model : kModels) {
    for (const uint32_t batch : {1U, 16U, 64U, 128U}) {
      for (const uint32_t context : {512U, 1024U, 4096U, 8192U, 32768U}) {
        const Step step(model, batch, context, random);
        const size_t bytes = step.pages.size() * step.geometry().page_bytes();
        if (bytes < min_bytes || bytes > (size_t{24} << 30)) continue;
        const auto processors = static_cast<uint32_t>(device.multiProcessorCount);
        const double seconds = AttentionSeconds(step, Kernel::kOurs, memory, processors, flush);
        const double prefill =
            AttentionSeconds(step, Kernel::kFlashInfersPrefill, memory, processors, flush);
        const double rate = static_cast<double>(bytes) / seconds;
        std::printf(
            "{\"model\": \"%s\", \"batch\": %u, \"context\": %u, \"kv_mib\": %.1f, "
            "\"us\": %.1f, \"gb_s\": %.1f, \"share_of_copy\": %.3f, \"prefill_kernel_us\": %.1f, "
            "%s}\n",
            model.name, batch, context, static_cast<double>(bytes) / (1 << 20), seconds * 1e6,
            rate / 1e9, rate / copy, prefill * 1e6,
            PeerJson(step, memory, flush, static_cast<double>(bytes), seconds).c_str());
        std::fflush(stdout);
      }
    }
  }
  cudaFreeHost(pinned);
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  if (const int code = folio::testing::NeedDevice(); code != 0) return code;
  folio::bench::Run(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : size_t{64} << 20);
  return 0;
}
