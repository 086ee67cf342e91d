#include "services/model/cuda/rank_vote.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace folio::model {
namespace {

// It has one size on all ranks, as a gather needs it.
struct Ballot {
  uint64_t subject = 0;
  uint32_t length = 0;
  char objection[212] = {};
};

}  // namespace

absl::StatusOr<std::string> Vote(collective::Collective& host, uint64_t subject,
                                 absl::string_view objection, SteadyTime deadline) {
  Ballot own;
  own.subject = subject;
  own.length = static_cast<uint32_t>(std::min(objection.size(), sizeof(own.objection)));
  std::copy_n(objection.data(), own.length, own.objection);
  std::vector<Ballot> all(host.size());
  const std::vector<size_t> sizes(host.size(), sizeof(Ballot));
  const auto* mine = reinterpret_cast<const std::byte*>(&own);
  auto* gathered = reinterpret_cast<std::byte*>(all.data());
  absl::Status status = host.AllGather({mine, sizeof(Ballot)}, sizes,
                                       {gathered, all.size() * sizeof(Ballot)}, deadline);
  if (!status.ok()) return status;
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].subject == subject && all[rank].length <= sizeof(own.objection)) continue;
    status = absl::InternalError(
        absl::StrCat("rank ", host.rank().value(), " and rank ", rank, " vote on different steps"));
    host.Abort(status);
    return status;
  }
  for (uint32_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].length == 0) continue;
    return absl::StrCat("rank ", rank, ": ",
                        absl::string_view(all[rank].objection, all[rank].length));
  }
  return std::string();
}

}  // namespace folio::model
