#include "services/worker/rank_life.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/common/logging.h"
#include "services/model/rank_follower.h"
#include "services/worker/pool_attachment.h"

namespace folio::worker {
namespace {

namespace v1 = folio::v1;

// Ranks map their pools at their own pace.
constexpr absl::Duration kPatience = absl::Minutes(1);

// Until all ranks have come here.
absl::Status AwaitAll(collective::Collective& group) {
  const std::vector<size_t> sizes(group.size(), 1);
  std::vector<std::byte> done(group.size());
  return group.AllGather({done.data(), 1}, sizes, absl::MakeSpan(done), absl::Now() + kPatience);
}

std::string TermsOf(const LoadedModel& model, uint32_t max_rows) {
  const v1::GetModelResponse& said = model.description();
  return absl::StrCat(said.layout().model(), " ", said.layout().fingerprint(), ", ",
                      said.layout().page_tokens(), " tokens a page, ", said.compute(), " by ",
                      said.kernels(), " kernels, ", max_rows, " rows a step");
}

absl::Status LeaderFailed(const absl::Status& why) {
  return absl::InternalError(absl::StrCat("the tensor-parallel group failed: ", why.message()));
}

absl::Status AgreeOnTerms(collective::Collective& group, const LoadedModel& model,
                          uint32_t max_rows) {
  const std::string own = TermsOf(model, max_rows);
  std::string terms = own;
  absl::Status status = group.Broadcast(terms, absl::Now() + kPatience);
  if (!status.ok()) return status;
  if (terms != own) {
    group.Abort(absl::FailedPreconditionError(
        absl::StrCat("rank ", group.rank().value(), " has ", own, "; the leader has ", terms)));
  }
  return AwaitAll(group);
}

// Ends the group for what this rank cannot do, unless it has ended; gives why it has.
absl::Status EndGroup(collective::Collective& group, const absl::Status& why) {
  if (absl::Status ended = group.Health(); !ended.ok()) return ended;
  absl::Status named(why.code(), absl::StrCat("rank ", group.rank().value(), ": ", why.message()));
  group.Abort(named);
  return named;
}

// One attachment: from the leader's word to the end of its executor.
absl::Status FollowOnce(const RankGroup& group, const LoadedModel& model, uint32_t max_rows,
                        const std::string& word) {
  v1::AttachResponse response;
  if (!response.ParseFromString(word)) {
    return absl::InternalError("the leader's answer from the manager cannot be read");
  }
  const auto attachment = PoolAttachment::Fetch(response, model.pool_user());
  if (!attachment.ok()) return attachment.status();
  const auto executor = model.MakeExecutor((*attachment)->view(), max_rows, &group);
  if (!executor.ok()) return executor.status();
  if (absl::Status status = AwaitAll(*group.host); !status.ok()) return status;
  log::Info("following the leader", {{"rank", group.host->rank().value()},
                                     {"worker", response.worker_id()},
                                     {"pages", response.pool().num_pages()}});
  return model::RunRankFollower(**executor, *group.host);
}

}  // namespace

absl::StatusOr<RankGroup> MeetRanks(collective::Collective& host, const LoadedModel& model,
                                    uint32_t max_rows) {
  if (absl::Status status = AgreeOnTerms(host, model, max_rows); !status.ok()) return status;
  auto group = model.MeetRanks(host, max_rows);
  if (!group.ok()) return EndGroup(host, group.status());
  if (absl::Status status = AwaitAll(host); !status.ok()) return status;
  return group;
}

absl::Status TellRanksToAttach(collective::Collective& group, const v1::AttachResponse& to) {
  std::string word = to.SerializeAsString();
  absl::Status status = group.Broadcast(word, absl::Now() + kPatience);
  if (status.ok()) status = AwaitAll(group);
  return status.ok() ? status : LeaderFailed(status);
}

void TellRanksToEnd(collective::Collective& group) {
  std::string nothing;
  (void)group.Broadcast(nothing, absl::Now() + absl::Seconds(1));
}

absl::Status LiveAsRank(const RankGroup& group, const LoadedModel& model, uint32_t max_rows) {
  for (;;) {
    std::string word;
    absl::Status status = group.host->Broadcast(word, absl::InfiniteFuture());
    if (!status.ok() || word.empty()) return status;
    status = FollowOnce(group, model, max_rows, word);
    if (!status.ok()) return EndGroup(*group.host, status);
  }
}

}  // namespace folio::worker
