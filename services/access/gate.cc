#include "services/access/gate.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "services/runtime/logging.h"

namespace folio::access {
namespace {

// Lines about refusals: so many at once, and then one a second.
constexpr uint64_t kMostLines = 20;
constexpr absl::Duration kLineTime = absl::Seconds(1);

// gRPC names the peer. Over TCP it is "ipv4:" or "ipv6:" and an address.
bool OverUnixSocket(const grpc::ServerContextBase& context) {
  const std::string peer = context.peer();
  return absl::StartsWith(peer, "unix:") || absl::StartsWith(peer, "unix-abstract:");
}

// gRPC has these properties only of a certificate that it has verified.
std::vector<std::string> CertificateNames(const grpc::ServerContextBase& context) {
  std::vector<std::string> names;
  const auto peer = context.auth_context();
  if (peer == nullptr || !peer->IsPeerAuthenticated()) return names;
  for (const char* property : {"x509_subject_alternative_name", "x509_common_name"}) {
    for (const grpc::string_ref& value : peer->FindPropertyValues(property)) {
      names.emplace_back(value.data(), value.size());
    }
  }
  return names;
}

Shown ShownBy(const grpc::ServerContextBase& context) {
  Shown shown;
  const auto [first, last] = context.client_metadata().equal_range("authorization");
  for (auto it = first; it != last; ++it) {
    shown.authorization.emplace_back(it->second.data(), it->second.size());
  }
  shown.certificate_names = CertificateNames(context);
  shown.unix_socket = OverUnixSocket(context);
  return shown;
}

absl::Status CheckNeed(const Caller& caller, Need need) {
  switch (need) {
    case Need::kTenant:
      if (caller.scope != TenantScope::kNone) return absl::OkStatus();
      return TenantFor(caller, "").status();
    case Need::kView:
      if (caller.right >= Right::kView) return absl::OkStatus();
      return absl::PermissionDeniedError(
          "the call needs the right view, which the caller lacks: show an operator's credential");
    case Need::kSteer:
      if (caller.right >= Right::kSteer) return absl::OkStatus();
      return absl::PermissionDeniedError(
          "the call needs the right steer, which the caller lacks: show the credential of an "
          "operator who may act");
  }
  return absl::InternalError("unknown need");
}

}  // namespace

absl::StatusOr<Caller> Gate::Admit(const grpc::ServerContextBase& context, absl::string_view call,
                                   Need need) {
  if (list_ == nullptr) return Anyone();
  auto caller = FindCaller(list_->Current()->rules, ShownBy(context));
  absl::Status status = caller.ok() ? CheckNeed(*caller, need) : caller.status();
  if (status.ok()) return caller;
  Note(context, call, caller.ok() ? caller->name : "unknown", status);
  return status;
}

absl::Status Gate::AdmitLocal(const grpc::ServerContextBase& context, absl::string_view call) {
  if (list_ == nullptr || OverUnixSocket(context)) return absl::OkStatus();
  absl::Status status = absl::PermissionDeniedError(
      "with --access the manager serves workers over Unix sockets alone: give the worker the "
      "manager's Unix socket (--manager=unix:/path)");
  Note(context, call, "unknown", status);
  return status;
}

int32_t Gate::PriorityFor(absl::string_view tenant, int32_t priority) {
  return list_ == nullptr ? priority
                          : access::PriorityFor(list_->Current()->rules, tenant, priority);
}

bool Gate::MayLog(uint64_t* dropped) {
  const absl::MutexLock lock(&mutex_);
  const SteadyTime now = SteadyNow();
  if (now - filled_ >= static_cast<int64_t>(kMostLines) * kLineTime) {
    lines_ = kMostLines;
    filled_ = now;
  }
  while (lines_ < kMostLines && now - filled_ >= kLineTime) {
    ++lines_;
    filled_ += kLineTime;
  }
  if (lines_ == 0) {
    ++dropped_;
    return false;
  }
  if (lines_-- == kMostLines) filled_ = now;
  *dropped = std::exchange(dropped_, 0);
  return true;
}

void Gate::Note(const grpc::ServerContextBase& context, absl::string_view call,
                absl::string_view caller, const absl::Status& why) {
  const bool unknown = absl::IsUnauthenticated(why);
  if (list_ == nullptr || (!unknown && !absl::IsPermissionDenied(why))) return;
  ++(unknown ? unauthenticated_ : denied_);
  uint64_t dropped = 0;
  if (!MayLog(&dropped)) return;
  log::Warning("a call was refused", {{"call", call},
                                      {"peer", context.peer()},
                                      {"caller", caller},
                                      {"reason", why},
                                      {"not_logged", dropped}});
}

}  // namespace folio::access
