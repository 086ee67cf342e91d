#include "services/wire/protocol_versions.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace folio::wire {
namespace {

std::string Words(const ProtocolVersions& range) {
  if (range.oldest == range.newest) return absl::StrCat("version ", range.newest);
  return absl::StrCat("versions ", range.oldest, " to ", range.newest);
}

}  // namespace

void SetVersions(const ProtocolVersions& own, v1::AttachRequest* request) {
  request->set_protocol_version(own.oldest);
  request->set_newest_protocol_version(own.newest);
}

absl::StatusOr<uint32_t> ChooseVersion(const ProtocolVersions& own,
                                       const v1::AttachRequest& request) {
  ProtocolVersions worker{request.protocol_version(), request.newest_protocol_version()};
  if (worker.newest == 0) worker.newest = worker.oldest;
  if (worker.newest < worker.oldest) {
    return absl::InvalidArgumentError(
        absl::StrCat("newest_protocol_version: ", worker.newest,
                     " is older than protocol_version, the oldest one: ", worker.oldest));
  }
  const uint32_t chosen = std::min(own.newest, worker.newest);
  if (chosen < std::max(own.oldest, worker.oldest)) {
    return absl::FailedPreconditionError(absl::StrCat("protocol_version: the manager speaks ",
                                                      Words(own), " and the worker ", Words(worker),
                                                      "; upgrade the older one"));
  }
  return chosen;
}

absl::StatusOr<uint32_t> ChosenVersion(const ProtocolVersions& own,
                                       const v1::AttachResponse& response) {
  const uint32_t chosen =
      response.protocol_version() == 0 ? own.oldest : response.protocol_version();
  if (chosen < own.oldest || chosen > own.newest) {
    return absl::FailedPreconditionError(absl::StrCat("protocol_version: the manager has chosen ",
                                                      chosen, ", and the worker speaks ",
                                                      Words(own)));
  }
  return chosen;
}

absl::Status CheckKnowsWindows(uint32_t version, const v1::ModelLayout& layout) {
  if (layout.window_tokens() == 0 || version >= kWindowsProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "some layers of ", layout.model(), " attend to a window, and the manager speaks version ",
      version, " of the protocol, which has none: upgrade the manager to one that speaks version ",
      kWindowsProtocolVersion));
}

}  // namespace folio::wire
