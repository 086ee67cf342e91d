#include "tests/gpu/cuda_executor_harness.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "kernels/cuda/runtime/stream.h"
#include "services/base/check.h"

namespace folio::model::testing {
namespace {

constexpr size_t kHostPage = 4096;

size_t BoardFloats(const kernels::PoolView& view) {
  return view.geometry.score_board_floats(view.num_pages);
}

size_t WholePages(size_t bytes) { return (bytes + kHostPage - 1) / kHostPage * kHostPage; }

}  // namespace

ModelConfig GpuConfig() {
  ModelConfig config = TinyConfig();
  config.head_dim = 64;
  // Kernels of small batches serve multiples of eight, also in each of four ranks.
  config.ffn = 64;
  return config;
}

ModelConfig Fp8Config() {
  ModelConfig config = GpuConfig();
  config.hidden = 48;
  config.ffn = 96;
  return config;
}

CudaHarness::CudaHarness(const ModelSource& model, const CudaHarnessOptions& options,
                         uint32_t num_pages)
    : pool_(model.config(), num_pages),
      options_{.max_rows = options.max_rows,
               .graphs = options.graphs,
               .tune = options.tune,
               .decode_kernels = options.decode_kernels,
               .own_rows = options.own_rows} {
  const kernels::PoolView& view = pool_.view();
  const size_t bytes = view.num_pages * view.geometry.page_bytes();
  auto pages = memory_.Allocate(bytes, "pages");
  FOLIO_CHECK(pages.ok());
  pages_ = *std::move(pages);
  // NaN, as the host's.
  FOLIO_CHECK(cudaMemcpy(pages_.as<>(), view.pages, bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  const size_t board_bytes = WholePages(BoardFloats(view) * sizeof(float));
  scores_ = static_cast<float*>(std::aligned_alloc(kHostPage, board_bytes));
  std::fill_n(scores_, BoardFloats(view), std::numeric_limits<float>::quiet_NaN());
  auto board = kernels::cuda::RegisteredMemory::Register(scores_, board_bytes, "the board");
  FOLIO_CHECK(board.ok());
  board_ = *std::move(board);
  auto swap = kernels::cuda::PinnedBuffer::Allocate(
      TestPool::kSwapSlots * view.geometry.swap_slot_bytes(), "swap memory");
  FOLIO_CHECK(swap.ok());
  swap_ = *std::move(swap);
  model_ = CudaModel::Load(model, {.device = options.device,
                                   .gpu_memory = options.gpu_memory,
                                   .type = options.type,
                                   .held = options.held,
                                   .load_threads = options.load_threads,
                                   .progress = options.progress});
  MakeAnotherExecutor();
}

void CudaHarness::MakeAnotherExecutor() {
  executor_ = absl::CancelledError("the next one comes");
  kernels::PoolView view = pool_.view();
  view.pages = pages_.as<>();
  view.scores = static_cast<float*>(board_.on_device());
  view.swap = {swap_.as<>(), TestPool::kSwapSlots, scores_};
  executor_ = model_.ok()
                  ? MakeCudaExecutor(*model_, {view, kernels::cuda::DataType::kBf16}, options_)
                  : model_.status();
}

CudaHarness::~CudaHarness() {
  executor_ = absl::CancelledError("the end");
  board_ = {};
  std::free(scores_);
}

kernels::PoolView CudaHarness::board() const {
  kernels::PoolView view = pool_.view();
  view.pages = nullptr;
  view.scores = scores_;
  return view;
}

std::vector<kernels::bf16> CudaHarness::Pages() const {
  std::vector<kernels::bf16> numbers(pages_.bytes() / sizeof(kernels::bf16));
  FOLIO_CHECK(cudaMemcpy(numbers.data(), pages_.as<>(), pages_.bytes(), cudaMemcpyDeviceToHost) ==
              cudaSuccess);
  return numbers;
}

void CudaHarness::Damage(PageId page) {
  const std::vector<std::byte> nan(pool_.view().geometry.page_bytes(), std::byte{0xff});
  auto* at = pages_.as<std::byte>() + page.value() * nan.size();
  FOLIO_CHECK(cudaMemcpy(at, nan.data(), nan.size(), cudaMemcpyHostToDevice) == cudaSuccess);
}

void ExpectSameMemory(const CudaHarness& one, const CudaHarness& other) {
  const auto bits = [](const CudaHarness& harness) {
    std::vector<uint32_t> all;
    for (const kernels::bf16 x : harness.Pages()) all.push_back(x.bits);
    const kernels::PoolView board = harness.board();
    const size_t floats = BoardFloats(board);
    for (size_t i = 0; i < floats; ++i) all.push_back(std::bit_cast<uint32_t>(board.scores[i]));
    return all;
  };
  EXPECT_TRUE(bits(one) == bits(other)) << "pages or boards differ";
}

bool Emulated() {
  const auto info = kernels::cuda::UseDevice(0);
  return info.ok() && info->name == "emulated";
}

}  // namespace folio::model::testing
