#include "services/manager/memory/device_memory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/runtime/byte_size.h"

namespace folio::manager {
namespace {

class DevicePages final : public PageMemory {
 public:
  DevicePages(CudaAllocation allocation, PagePlace place)
      : allocation_(std::move(allocation)), place_(std::move(place)) {}
  int fd() const override { return allocation_.fd(); }
  const PagePlace& place() const override { return place_; }

 private:
  CudaAllocation allocation_;
  PagePlace place_;
};

uint64_t RoundUp(uint64_t bytes, uint64_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

std::string InMiB(uint64_t bytes) { return absl::StrCat(bytes >> 20, "MiB"); }

// With what to do instead, whatever it was.
absl::Status Unusable(int ordinal, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat("--device=cuda:", ordinal, ": ", why.message(),
                                               "; or use --device=cpu"));
}

}  // namespace

std::string DeviceMemory::Gpu::device() const { return absl::StrCat("cuda:", cuda.ordinal); }
std::string DeviceMemory::Gpu::ToString() const {
  return absl::StrCat(device(), " (", cuda.name, ")");
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Open(const std::vector<int>& ordinals,
                                                                 const CudaLibraries& libraries) {
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory());
  memory->nvml_ = Nvml::Load(libraries.nvml);
  bool no_device = false;
  auto driver = CudaDriver::Load(libraries.driver, &no_device);
  if (absl::IsNotFound(driver.status())) {
    return Unusable(ordinals[0], absl::NotFoundError(absl::StrCat(
                                     "there is no CUDA driver (", driver.status().message(),
                                     "); install NVIDIA's, or give this container the GPU (docker "
                                     "run --gpus all)")));
  }
  if (!driver.ok()) {
    std::string why(driver.status().message());
    // Nothing is shown of a GPU that is to be cut up and has no instance yet.
    const auto mig =
        no_device && memory->nvml_ ? memory->nvml_->InMigMode() : std::vector<std::string>();
    if (!mig.empty()) {
      absl::StrAppend(&why, "; ", absl::StrJoin(mig, ", "), mig.size() == 1 ? " is" : " are",
                      " in MIG mode, and pages need a whole GPU; turn it off (nvidia-smi -mig 0)");
    }
    return Unusable(ordinals[0], absl::Status(driver.status().code(), why));
  }
  memory->driver_ = *std::move(driver);
  for (const int ordinal : ordinals) {
    const auto known =
        std::find_if(memory->gpus_.begin(), memory->gpus_.end(),
                     [ordinal](const Gpu& gpu) { return gpu.cuda.ordinal == ordinal; });
    memory->of_rank_.push_back(known - memory->gpus_.begin());
    if (known != memory->gpus_.end()) continue;
    auto device = memory->driver_->Device(ordinal);
    if (!device.ok()) return Unusable(ordinal, device.status());
    memory->gpus_.push_back({*std::move(device)});
  }
  return memory;
}

const DeviceMemory::Gpu& DeviceMemory::GpuOf(Rank rank) const {
  return gpus_[of_rank_[of_rank_.size() == 1 ? 0 : rank.value()]];
}

std::string DeviceMemory::device() const {
  return absl::StrJoin(of_rank_, ",", [this](std::string* out, size_t gpu) {
    absl::StrAppend(out, gpus_[gpu].device());
  });
}

DeviceState DeviceMemory::StateOf(const Gpu& gpu) const {
  DeviceState state = {.device = gpu.device(), .uuid = gpu.cuda.uuid, .name = gpu.cuda.name};
  const auto memory = nvml_ == nullptr ? std::nullopt : nvml_->MemoryOf(gpu.cuda.uuid);
  if (memory.has_value()) {
    state.total_bytes = memory->total;
    state.free_bytes = memory->free;
  }
  return state;
}

std::vector<DeviceState> DeviceMemory::Devices() const {
  std::vector<DeviceState> states;
  states.reserve(gpus_.size());
  for (const Gpu& gpu : gpus_) states.push_back(StateOf(gpu));
  for (uint32_t rank = 0; rank < of_rank_.size() && of_rank_.size() > 1; ++rank) {
    states[of_rank_[rank]].ranks.emplace_back(rank);
  }
  return states;
}

absl::Status DeviceMemory::TooLittle(const Gpu& gpu, uint64_t wanted) const {
  const std::optional<uint64_t> free = StateOf(gpu).free_bytes;
  return absl::ResourceExhaustedError(
      absl::StrCat(gpu.ToString(), " has ", free ? InMiB(*free) : "too little", " free of ",
                   InMiB(gpu.cuda.total_bytes), " and the pool wants ", InMiB(wanted),
                   " there; give --pool_bytes less, or end what else uses the GPU"));
}

absl::Status DeviceMemory::CheckSize(const PoolSize& size) const {
  uint64_t all = 0;
  for (const Gpu& gpu : gpus_) {
    const std::optional<uint64_t> free = StateOf(gpu).free_bytes;
    if (size.is_share() && !free.has_value()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "nothing tells how much of ", gpu.ToString(),
          " is free (libnvidia-ml.so.1 is missing or does not know); give a size like 20GiB"));
    }
    all += free.value_or(gpu.cuda.total_bytes);
  }
  if (size.bytes <= all) return absl::OkStatus();
  if (gpus_.size() == 1) return TooLittle(gpus_[0], size.bytes);
  return absl::ResourceExhaustedError(absl::StrCat(device(), " have ", InMiB(all),
                                                   " free together and the pool wants ",
                                                   InMiB(size.bytes), "; give less"));
}

absl::StatusOr<uint64_t> DeviceMemory::PagesThatFit(const PoolSize& size,
                                                    absl::Span<const uint64_t> rank_page_bytes,
                                                    uint64_t least) const {
  if (of_rank_.size() != 1 && of_rank_.size() != rank_page_bytes.size()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--device=", device(), " names ", of_rank_.size(), " devices and the worker has ",
        rank_page_bytes.size(), " ranks; name one for each rank, or one for all"));
  }
  if (absl::Status status = CheckSize(size); !status.ok()) return status;
  struct Load {  // of one GPU, by the ranks that are on it
    uint64_t page_bytes = 0;
    uint64_t rounding = 0;  // bytes, at most
  };
  std::vector<Load> loads(gpus_.size());
  uint64_t all_page_bytes = 0;
  for (uint32_t rank = 0; rank < rank_page_bytes.size(); ++rank) {
    const Gpu& gpu = GpuOf(Rank(rank));
    Load& load = loads[&gpu - gpus_.data()];
    load.page_bytes += rank_page_bytes[rank];
    load.rounding += gpu.cuda.granularity;
    all_page_bytes += rank_page_bytes[rank];
  }
  if (!size.is_share()) return PagesIn(size.bytes, all_page_bytes);
  uint64_t fitting = UINT32_MAX;
  for (size_t i = 0; i < gpus_.size(); ++i) {
    const uint64_t share =
        size.ShareOf(gpus_[i].device(), StateOf(gpus_[i]).free_bytes.value_or(0));
    fitting =
        std::min(fitting, PagesIn(share - std::min(share, loads[i].rounding), loads[i].page_bytes));
  }
  return fitting;
}

absl::StatusOr<std::unique_ptr<PageMemory>> DeviceMemory::Allocate(Rank rank, size_t bytes) const {
  const Gpu& gpu = GpuOf(rank);
  PagePlace place;
  place.device = gpu.device();
  place.device_uuid = gpu.cuda.uuid;
  place.bytes = RoundUp(bytes, gpu.cuda.granularity);
  auto allocation = driver_->Allocate(gpu.cuda, place.bytes);
  if (absl::IsResourceExhausted(allocation.status())) {
    const absl::Status wanted = TooLittle(gpu, place.bytes);
    return absl::Status(wanted.code(),
                        absl::StrCat(wanted.message(), " (", allocation.status().message(), ")"));
  }
  if (!allocation.ok()) {
    return absl::Status(allocation.status().code(),
                        absl::StrCat(gpu.ToString(), ": ", allocation.status().message()));
  }
  return std::make_unique<DevicePages>(*std::move(allocation), std::move(place));
}

}  // namespace folio::manager
