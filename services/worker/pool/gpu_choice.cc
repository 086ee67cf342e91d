#include "services/worker/pool/gpu_choice.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/grpc/grpc_deadline.h"
#include "services/grpc/grpc_status.h"
#include "services/worker/link/manager_channel.h"

namespace folio::worker {
namespace {

namespace v1 = folio::v1;

absl::Status OnHost(absl::string_view what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the manager's pages are in host memory and this worker computes on ", what,
                   "; start the manager with --device=cuda:N, or this worker with --device=cpu"));
}

absl::StatusOr<v1::DescribePoolResponse> AskManager(const std::shared_ptr<grpc::Channel>& manager,
                                                    absl::Duration timeout,
                                                    const std::function<bool()>& stop) {
  const auto stub = v1::KvManager::NewStub(manager);
  v1::DescribePoolResponse response;
  absl::Status status = RetryWhileUnavailable(*manager, timeout, stop, [&] {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(SteadyNow() + absl::Seconds(10)));
    return FromGrpcStatus(stub->DescribePool(&context, {}, &response));
  });
  if (absl::IsUnimplemented(status)) {
    return absl::FailedPreconditionError(
        "the manager does not know KvManager.DescribePool, so it is older than this worker; start "
        "a manager of the worker's version");
  }
  if (!status.ok()) return status;
  return response;
}

// The number of the pages' GPU among those that this process sees.
absl::StatusOr<int> NumberOf(const std::vector<std::string>& uuids, const v1::PoolDevice& pages) {
  const auto at = std::find(uuids.begin(), uuids.end(), pages.uuid());
  if (at != uuids.end()) return static_cast<int>(at - uuids.begin());
  return absl::FailedPreconditionError(
      absl::StrCat("the manager's pages are on ", pages.name(), " (", pages.uuid(),
                   "), which this process does not see; it sees ", absl::StrJoin(uuids, ", "),
                   ": look at CUDA_VISIBLE_DEVICES"));
}

// NCCL refuses ranks that share a GPU, unless the variable below is set.
absl::Status CheckOneEach(const v1::PoolDevice& pages, const TpRank& of) {
  const bool shared = pages.ranks().empty() ? of.ranks > 1 : pages.ranks_size() > 1;
  const char* const enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  if (!shared || (enabled != nullptr && absl::string_view(enabled) == "1")) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the manager has several ranks' pages on ", pages.name(), " (", pages.uuid(),
      "), and NCCL wants a GPU for each rank; start the manager with one for each, such "
      "as --device=cuda:0,cuda:1, or give NCCL_MULTI_RANK_GPU_ENABLE=1 in the "
      "environment, which is an experiment of NCCL 2.30"));
}

// The device that holds the rank's pages.
absl::StatusOr<const v1::PoolDevice*> PagesOf(const v1::DescribePoolResponse& pool,
                                              const TpRank& of) {
  if (pool.devices().empty()) return OnHost("a GPU");
  const v1::PoolDevice* found = nullptr;
  uint32_t named = 0;
  for (const v1::PoolDevice& device : pool.devices()) {
    const auto& ranks = device.ranks();
    named += static_cast<uint32_t>(ranks.size());
    if (ranks.empty() || std::count(ranks.begin(), ranks.end(), of.rank.value()) > 0) {
      found = &device;
    }
  }
  if (named != 0 && named != of.ranks) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the manager's --device names GPUs for ", named, " ranks, and this worker has ", of.ranks,
        "; start the manager with --device=cuda:N for each, or this worker with --tp=", named));
  }
  if (found == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("the manager does not say what memory rank ",
                                                      of.rank.value(),
                                                      "'s pages are in; is it of this version?"));
  }
  if (absl::Status status = CheckOneEach(*found, of); !status.ok()) return status;
  return found;
}

absl::StatusOr<int> Choose(Gpus& gpus, const DeviceChoice& choice, const TpRank& of,
                           const std::shared_ptr<grpc::Channel>& manager, absl::Duration timeout,
                           const std::function<bool()>& stop) {
  const auto uuids = gpus.Uuids();
  if (!uuids.ok()) {
    return absl::Status(uuids.status().code(),
                        absl::StrCat(uuids.status().message(), "; or use --device=cpu"));
  }
  const int count = static_cast<int>(uuids->size());
  if (choice.number.has_value() && *choice.number >= count) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no such GPU; this process sees ", count, ", numbered from 0"));
  }
  const auto pool = AskManager(manager, timeout, stop);
  if (!pool.ok()) return pool.status();
  const auto found = PagesOf(*pool, of);
  if (!found.ok()) return found.status();
  const v1::PoolDevice& pages = **found;
  auto number = NumberOf(*uuids, pages);
  if (!number.ok() || *number == choice.number.value_or(*number)) return number;
  return absl::FailedPreconditionError(
      absl::StrCat("that is ", uuids->at(*choice.number), ", and the manager's pages are on ",
                   pages.name(), " (", pages.uuid(), "), which is cuda:", *number,
                   " here; give that, or --device=cuda, which takes it by itself"));
}

}  // namespace

std::string DeviceChoice::ToString() const {
  if (!cuda) return "cpu";
  return number.has_value() ? absl::StrCat("cuda:", *number) : "cuda";
}

absl::StatusOr<std::unique_ptr<Gpu>> OpenGpu(Gpus& gpus, const DeviceChoice& choice,
                                             const TpRank& of,
                                             const std::shared_ptr<grpc::Channel>& manager,
                                             absl::Duration timeout,
                                             const std::function<bool()>& stop) {
  const auto flagged = [&](const absl::Status& why) {
    if (!absl::IsFailedPrecondition(why)) return why;
    return absl::Status(why.code(),
                        absl::StrCat("--device=", choice.ToString(), ": ", why.message()));
  };
  const auto number = Choose(gpus, choice, of, manager, timeout, stop);
  if (!number.ok()) return flagged(number.status());
  auto gpu = gpus.Open(*number, choice.gpu_memory);
  if (!gpu.ok()) return flagged(gpu.status());
  return gpu;
}

absl::Status CheckPagesAreOn(const Gpu* gpu, const std::string& uuid) {
  if (gpu == nullptr) {
    if (uuid.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("the manager's pages are in memory of ", uuid,
                     " and this worker computes on the CPU; start the manager with --device=cpu, "
                     "or this worker with --device=cuda"));
  }
  const DeviceInfo& own = gpu->info();
  if (uuid.empty()) return OnHost(own.ToString());
  if (uuid == own.uuid) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the manager's pages are in memory of ", uuid, " and this worker computes on ",
                   own.ToString(), ", which is ", own.uuid,
                   "; restart it with --device=cuda, which takes the manager's GPU"));
}

}  // namespace folio::worker
