// The GPUs of a worker that is built with CUDA.
#include <utility>

#include "kernels/cuda/runtime/imported_pool.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/cuda/cuda_executor.h"
#include "services/model/cuda/cuda_model.h"
#include "services/model/cuda/nccl_communicator.h"
#include "services/worker/device/gpu.h"

namespace folio::worker {
namespace {

namespace cuda = kernels::cuda;

class CudaPages final : public GpuPages {
 public:
  CudaPages(int device, cuda::ImportedPool pool, cuda::RegisteredMemory board,
            cuda::RegisteredMemory swap)
      : device_(device), pool_(std::move(pool)), board_(std::move(board)), swap_(std::move(swap)) {}
  // The calling thread may have another device, which CUDA would then begin to use.
  ~CudaPages() override { cuda::BindDevice(device_).IgnoreError(); }

  std::byte* pages() const override { return pool_.data(); }
  float* scores() const override { return static_cast<float*>(board_.on_device()); }

 private:
  const int device_;
  const cuda::ImportedPool pool_;
  const cuda::RegisteredMemory board_;
  const cuda::RegisteredMemory swap_;  // empty without swap memory
};

class LoadedCudaModel final : public GpuModel {
 public:
  explicit LoadedCudaModel(std::shared_ptr<model::CudaModel> model) : model_(std::move(model)) {}

  uint64_t weight_bytes() const override { return model_->weights().memory.bytes(); }
  const model::HeldMatrices& held() const override { return model_->weights().held; }
  absl::StatusOr<std::shared_ptr<model::CudaCommunicator>> MakeCommunicator(
      const std::vector<model::Shard>& shards, collective::Collective& host,
      uint32_t max_rows) const override {
    return model::MakeNcclCommunicator(model_, shards, host, max_rows);
  }
  absl::StatusOr<std::unique_ptr<model::Executor>> MakeExecutor(
      const kernels::PoolView& pool, uint32_t max_rows, bool decode_kernels,
      std::shared_ptr<model::CudaCommunicator> communicator) const override {
    model::CudaExecutorOptions options{.max_rows = max_rows, .decode_kernels = decode_kernels};
    options.communicator = std::move(communicator);
    return model::MakeCudaExecutor(model_, {pool, cuda::DataType::kBf16}, options);
  }

 private:
  const std::shared_ptr<model::CudaModel> model_;
};

class CudaGpu final : public Gpu {
 public:
  CudaGpu(DeviceInfo info, uint64_t memory) : info_(std::move(info)), memory_(memory) {}

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<std::unique_ptr<GpuModel>> Load(const model::ModelSource& source,
                                                 cuda::DataType weights, model::HeldWeights held,
                                                 int threads,
                                                 const model::LoadProgress& progress) override {
    auto model = model::CudaModel::Load(source, {.device = info_.number,
                                                 .gpu_memory = memory_,
                                                 .type = weights,
                                                 .held = held,
                                                 .load_threads = threads,
                                                 .progress = progress});
    if (!model.ok()) return model.status();
    return std::make_unique<LoadedCudaModel>(*std::move(model));
  }

  absl::StatusOr<std::unique_ptr<GpuPages>> Import(int fd, size_t bytes,
                                                   absl::Span<std::byte> board,
                                                   absl::Span<std::byte> swap) override {
    if (absl::Status bound = cuda::BindDevice(info_.number); !bound.ok()) return bound;
    auto pool = cuda::ImportedPool::Import(fd, bytes, info_.number);
    if (!pool.ok()) return pool.status();
    auto scores = cuda::RegisteredMemory::Register(board.data(), board.size(), "the score board");
    if (!scores.ok()) return scores.status();
    cuda::RegisteredMemory locked;
    if (!swap.empty()) {
      auto reached = cuda::RegisteredMemory::Register(swap.data(), swap.size(), "the swap memory");
      if (!reached.ok()) return reached.status();
      locked = *std::move(reached);
    }
    return std::make_unique<CudaPages>(info_.number, *std::move(pool), *std::move(scores),
                                       std::move(locked));
  }

 private:
  const DeviceInfo info_;
  const uint64_t memory_;
};

class CudaGpus final : public Gpus {
 public:
  absl::StatusOr<std::vector<std::string>> Uuids() override { return cuda::DeviceUuids(); }
  absl::StatusOr<std::unique_ptr<Gpu>> Open(int number, uint64_t memory) override {
    auto device = cuda::UseDevice(number);
    if (!device.ok()) return device.status();
    return std::make_unique<CudaGpu>(*std::move(device), memory);
  }
};

}  // namespace

std::unique_ptr<Gpus> BuiltInGpus() { return std::make_unique<CudaGpus>(); }

}  // namespace folio::worker
