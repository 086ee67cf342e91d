// NVIDIA's GPUs, by the executor of services/model and the pools of kernels/cuda.
#include <utility>

#include "kernels/cuda/imported_pool.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/stream.h"
#include "services/model/cuda_executor.h"
#include "services/model/cuda_model.h"
#include "services/model/nccl_exchange.h"
#include "services/worker/gpu.h"

namespace folio::worker {
namespace {

namespace cuda = kernels::cuda;

class CudaPages final : public GpuPages {
 public:
  CudaPages(int device, cuda::ImportedPool pool, cuda::RegisteredMemory board)
      : device_(device), pool_(std::move(pool)), board_(std::move(board)) {}
  // Not every thread has this device; on another one CUDA would begin to use that.
  ~CudaPages() override { cuda::BindDevice(device_).IgnoreError(); }

  std::byte* pages() const override { return pool_.data(); }
  float* scores() const override { return static_cast<float*>(board_.on_device()); }

 private:
  const int device_;
  const cuda::ImportedPool pool_;
  const cuda::RegisteredMemory board_;
};

class LoadedCudaModel final : public GpuModel {
 public:
  explicit LoadedCudaModel(std::shared_ptr<model::CudaModel> model) : model_(std::move(model)) {}

  uint64_t weight_bytes() const override { return model_->weights().memory.bytes(); }
  absl::StatusOr<std::shared_ptr<model::CudaExchange>> MeetRanks(
      const std::vector<model::Shard>& shards, collective::Collective& host,
      uint32_t max_rows) const override {
    return model::MakeNcclExchange(model_, shards, host, max_rows);
  }
  absl::StatusOr<std::unique_ptr<model::Executor>> MakeExecutor(
      const kernels::PoolView& pool, uint32_t max_rows,
      std::shared_ptr<model::CudaExchange> exchange) const override {
    model::CudaExecutorOptions options{.max_rows = max_rows};
    options.exchange = std::move(exchange);
    return model::MakeCudaExecutor(model_, {pool, cuda::DataType::kBf16}, options);
  }

 private:
  const std::shared_ptr<model::CudaModel> model_;
};

class CudaGpu final : public Gpu {
 public:
  CudaGpu(GpuFacts facts, uint64_t memory) : facts_(std::move(facts)), memory_(memory) {}

  const GpuFacts& facts() const override { return facts_; }

  absl::StatusOr<std::unique_ptr<GpuModel>> Load(const model::ModelSource& source, int threads,
                                                 const model::LoadProgress& progress) override {
    auto model = model::CudaModel::Load(source, {.device = facts_.number,
                                                 .gpu_memory = memory_,
                                                 .load_threads = threads,
                                                 .progress = progress});
    if (!model.ok()) return model.status();
    return std::make_unique<LoadedCudaModel>(*std::move(model));
  }

  absl::StatusOr<std::unique_ptr<GpuPages>> Import(int fd, size_t bytes, void* board,
                                                   size_t board_bytes) override {
    if (absl::Status bound = cuda::BindDevice(facts_.number); !bound.ok()) return bound;
    auto pool = cuda::ImportedPool::Import(fd, bytes, facts_.number);
    if (!pool.ok()) return pool.status();
    auto reached = cuda::RegisteredMemory::Register(board, board_bytes, "the score board");
    if (!reached.ok()) return reached.status();
    return std::make_unique<CudaPages>(facts_.number, *std::move(pool), *std::move(reached));
  }

 private:
  const GpuFacts facts_;
  const uint64_t memory_;
};

class CudaGpus final : public Gpus {
 public:
  absl::StatusOr<std::vector<std::string>> Uuids() override { return cuda::DeviceUuids(); }
  absl::StatusOr<std::unique_ptr<Gpu>> Open(int number, uint64_t memory) override {
    auto device = cuda::UseDevice(number);
    if (!device.ok()) return device.status();
    GpuFacts facts = {number, std::move(device->uuid), std::move(device->name), device->total_bytes,
                      device->free_bytes};
    return std::make_unique<CudaGpu>(std::move(facts), memory);
  }
};

}  // namespace

std::unique_ptr<Gpus> BuiltInGpus() { return std::make_unique<CudaGpus>(); }

}  // namespace folio::worker
