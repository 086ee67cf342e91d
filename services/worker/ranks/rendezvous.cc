#include "services/worker/ranks/rendezvous.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"

namespace folio::worker {
namespace {

std::string SettingsOf(const LoadedModel& model, uint32_t max_rows) {
  const folio::v1::GetModelResponse& description = model.description();
  const folio::v1::ModelLayout& layout = description.layout();
  return absl::StrCat(layout.model(), " ", layout.fingerprint(), ", ", layout.page_tokens(),
                      " tokens a page, ", description.compute(), " by ", description.kernels(),
                      " kernels, ", max_rows, " rows a step");
}

absl::Status CompareSettings(collective::Collective& host, const LoadedModel& model,
                             uint32_t max_rows) {
  const std::string own = SettingsOf(model, max_rows);
  std::string leaders = own;
  absl::Status status = host.Broadcast(leaders, SteadyNow() + kRankTimeout);
  if (!status.ok()) return status;
  if (leaders != own) {
    host.Abort(absl::FailedPreconditionError(
        absl::StrCat("rank ", host.rank().value(), " has ", own, "; the leader has ", leaders)));
  }
  return Barrier(host);
}

}  // namespace

absl::Status Barrier(collective::Collective& host) {
  const std::vector<size_t> sizes(host.size(), 1);
  std::vector<std::byte> done(host.size());
  return host.AllGather({done.data(), 1}, sizes, absl::MakeSpan(done), SteadyNow() + kRankTimeout);
}

absl::Status AbortGroup(collective::Collective& host, const absl::Status& why) {
  if (absl::Status ended = host.Health(); !ended.ok()) return ended;
  absl::Status named(why.code(), absl::StrCat("rank ", host.rank().value(), ": ", why.message()));
  host.Abort(named);
  return named;
}

absl::StatusOr<RankGroup> InitGroup(collective::Collective& host, const LoadedModel& model,
                                    uint32_t max_rows) {
  if (absl::Status status = CompareSettings(host, model, max_rows); !status.ok()) return status;
  auto gpus = model.MakeCommunicator(host, max_rows);
  if (!gpus.ok()) return AbortGroup(host, gpus.status());
  if (absl::Status status = Barrier(host); !status.ok()) return status;
  return RankGroup{&host, *std::move(gpus)};
}

}  // namespace folio::worker
