#include "services/access/caller.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/access/sha256.h"
#include "services/base/secrets_match.h"

namespace folio::access {
namespace {

Caller CallerOf(const Grant& grant, absl::string_view credential) {
  absl::string_view who = grant.tenant;
  if (grant.scope == TenantScope::kAny) who = "any tenant";
  if (grant.scope == TenantScope::kNone) who = "no tenant";
  return {.name = absl::StrCat(who, ", ", credential, " of line ", grant.line),
          .scope = grant.scope,
          .tenant = grant.tenant,
          .right = grant.right};
}

absl::StatusOr<Caller> ByToken(const AccessRules& rules, const Shown& shown) {
  if (shown.authorization.size() > 1) {
    return absl::UnauthenticatedError("the call has several headers authorization: send one");
  }
  absl::string_view token = absl::StripAsciiWhitespace(shown.authorization[0]);
  if (!absl::StartsWithIgnoreCase(token, "bearer ")) {
    return absl::UnauthenticatedError(
        "the header authorization has another form than \"Bearer TOKEN\"");
  }
  token = absl::StripAsciiWhitespace(token.substr(7));
  const std::string hash = Sha256(token);
  const Grant* found = nullptr;
  for (const TokenGrant& one : rules.tokens) {
    if (SecretsMatch(one.hash, hash)) found = &one.grant;
  }
  if (found != nullptr) return CallerOf(*found, "token");
  return absl::UnauthenticatedError(
      "the token is not known here: show one whose SHA-256 is in the file that --access names");
}

}  // namespace

Caller Anyone() {
  return {.name = "not asked", .scope = TenantScope::kAny, .tenant = "", .right = Right::kSteer};
}

absl::StatusOr<Caller> FindCaller(const AccessRules& rules, const Shown& shown) {
  if (!shown.authorization.empty()) return ByToken(rules, shown);
  for (const std::string& name : shown.certificate_names) {
    const auto found = rules.certificates.find(name);
    if (found != rules.certificates.end()) return CallerOf(found->second, "certificate");
  }
  if (shown.unix_socket && rules.unix_socket.has_value()) {
    return CallerOf(*rules.unix_socket, "Unix socket");
  }
  return absl::UnauthenticatedError(
      shown.certificate_names.empty()
          ? "this daemon must know its callers: send a token as the metadata \"authorization: "
            "Bearer TOKEN\" (--token_file of folioctl), or show a client certificate that it knows"
          : "no name in the client's certificate is known here: send a token as the metadata "
            "\"authorization: Bearer TOKEN\", or have a line cert added to the file that --access "
            "names");
}

absl::StatusOr<std::string> TenantFor(const Caller& caller, absl::string_view tenant) {
  switch (caller.scope) {
    case TenantScope::kAny:
      return std::string(tenant);
    case TenantScope::kOne:
      if (tenant.empty() || tenant == caller.tenant) return caller.tenant;
      return absl::PermissionDeniedError(
          absl::StrCat("tenant: the caller is the tenant \"", absl::Utf8SafeCEscape(caller.tenant),
                       "\" and may name no other one: leave the field unset"));
    case TenantScope::kNone:
      break;
  }
  return absl::PermissionDeniedError(
      "the caller has no tenant, so it may make no requests to a model: show the credential of a "
      "tenant");
}

int32_t PriorityFor(const AccessRules& rules, absl::string_view tenant, int32_t priority) {
  const auto limits = rules.tenants.find(tenant);
  if (limits == rules.tenants.end()) return priority;
  return std::max(priority, limits->second.priority.value_or(priority));
}

}  // namespace folio::access
