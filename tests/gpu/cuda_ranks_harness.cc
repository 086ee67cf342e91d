#include "tests/gpu/cuda_ranks_harness.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "kernels/cuda/runtime/memory.h"
#include "services/base/check.h"
#include "services/model/cuda/cuda_executor.h"
#include "services/model/cuda/nccl_communicator.h"
#include "tests/gpu/cuda_executor_harness.h"

namespace folio::model::testing {
namespace {

namespace cuda = kernels::cuda;

constexpr uint32_t kPageTokens = 16;
constexpr size_t kHostPage = 4096;

// Whole pages of the host.
size_t BoardFloats(const GroupSetup& setup) {
  const size_t floats = GeometryOf(setup).score_board_floats(setup.pages);
  const size_t page = kHostPage / sizeof(float);
  return (floats + page - 1) / page * page;
}

// Counts that processes share.
class SharedCounts {
 public:
  explicit SharedCounts(uint32_t ranks)
      : ranks_(ranks), memory_(ranks * sizeof(GraphCounts) / sizeof(float)) {
    for (uint32_t rank = 0; rank < ranks; ++rank) at(rank) = {};
  }
  GraphCounts& at(uint32_t rank) const {
    return reinterpret_cast<GraphCounts*>(memory_.data())[rank];
  }
  std::vector<GraphCounts> Read() const { return {&at(0), &at(0) + ranks_}; }

 private:
  const uint32_t ranks_;
  const SharedFloats memory_;
};

// A rank's part of the model, its pages and its executor.
struct GpuRank {
  // `board` is the device's address of the board, `on_host` the host's.
  GpuRank(const GroupSetup& setup, const RankGraphs& graphs, collective::Collective& group,
          float* board, float* on_host)
      : shards(*ShardForAll(setup.model.config(), setup.ranks)),
        shard(shards[group.rank().value()]),
        source(setup.model, shard),
        pages(source.config(), setup.pages, kPageTokens) {
    int devices = 0;
    FOLIO_CHECK(cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0);
    const int device = static_cast<int>(group.rank().value()) % devices;
    auto model =
        CudaModel::Load(source, {.device = device, .type = graphs.type, .held = graphs.held});
    if (!model.ok()) {
      made = model.status();
      return;
    }
    // NaN, as the host's.
    const kernels::PoolView& host = pages.view();
    const size_t bytes = host.num_pages * host.geometry.page_bytes();
    auto held = memory.Allocate(bytes, "pages");
    FOLIO_CHECK(held.ok());
    on_device = *std::move(held);
    FOLIO_CHECK(cudaMemcpy(on_device.as<>(), host.pages, bytes, cudaMemcpyHostToDevice) ==
                cudaSuccess);
    auto communicator = MakeNcclCommunicator(*model, shards, group, setup.max_rows,
                                             setup.options.timeout, graphs.peers);
    if (!communicator.ok()) {
      made = communicator.status();
      return;
    }
    kernels::PoolView view = ShardPool(shard, on_device.as<>(), board, setup.pages, host.geometry,
                                       setup.model.config().kv_heads);
    auto locked = cuda::PinnedBuffer::Allocate(
        TestPool::kSwapSlots * host.geometry.swap_slot_bytes(), "swap memory");
    FOLIO_CHECK(locked.ok());
    swap = *std::move(locked);
    view.swap = {swap.as<>(), TestPool::kSwapSlots, on_host};
    CudaExecutorOptions options{.max_rows = setup.max_rows,
                                .tune = graphs.tune,
                                .decode_kernels = kDecodeKernels,
                                .own_rows = graphs.own_rows};
    options.graphs = graphs.wanted == nullptr || graphs.wanted(group.rank());
    options.communicator = *std::move(communicator);
    auto new_executor = MakeCudaExecutor(*model, {view, cuda::DataType::kBf16}, options);
    made = new_executor.status();
    if (made.ok()) executor = *std::move(new_executor);
  }

  const std::vector<Shard> shards;
  const Shard shard;
  const ShardSource source;
  TestPool pages;
  cuda::DeviceMemory memory{0};
  cuda::DeviceBuffer on_device;
  cuda::PinnedBuffer swap;
  absl::Status made;
  std::unique_ptr<Executor> executor;
};

}  // namespace

std::vector<std::string> RunGpuGroup(const GroupSetup& setup,
                                     const std::function<std::string(Stage&)>& script,
                                     const std::function<void(collective::Collective&)>& meddle,
                                     const RankGraphs& graphs) {
  const SharedFloats board(BoardFloats(setup));
  const SharedCounts counts(setup.ranks);
  // A process locks it once, for all its threads.
  const auto reach = [&] {
    auto reached = cuda::RegisteredMemory::Register(
        board.data(), BoardFloats(setup) * sizeof(float), "the board");
    FOLIO_CHECK(reached.ok());
    return *std::move(reached);
  };
  cuda::RegisteredMemory shared;
  if (setup.kind == RanksAre::kThreads) shared = reach();
  const auto body = [&](collective::Collective& group) -> std::string {
    cuda::RegisteredMemory own;
    if (setup.kind == RanksAre::kProcesses) own = reach();
    void* on_device = (setup.kind == RanksAre::kThreads ? shared : own).on_device();
    GpuRank rank(setup, graphs, group, static_cast<float*>(on_device), board.data());
    if (!rank.made.ok()) {
      group.Abort(rank.made);
      return rank.made.ToString();
    }
    const auto after = [&](const Executor& mine) {
      counts.at(group.rank().value()) = GraphsOf(mine);
    };
    return LeadOrFollow(setup, group, std::move(rank.executor), rank.pages, board, script, meddle,
                        after);
  };
  std::vector<std::string> said =
      collective::testing::RunRanks(setup.kind, setup.ranks, 1 << 16, body);
  if (graphs.counts != nullptr) *graphs.counts = counts.Read();
  return said;
}

}  // namespace folio::model::testing
