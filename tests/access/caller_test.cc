// Who a call's caller is, for which tenant it asks, and how urgent it may be.
#include "services/access/caller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/access/sha256.h"

namespace folio::access {
namespace {

using ::testing::HasSubstr;

std::string TokenLine(const std::string& token, const std::string& rest) {
  return absl::StrCat("token sha256:", absl::BytesToHexString(Sha256(token)), " ", rest, "\n");
}

AccessRules Rules(bool with_unix) {
  auto rules = ParseAccessRules(
      absl::StrCat("tenant alice priority=10\ntenant bob\n", TokenLine("secret-a", "alice"),
                   TokenLine("secret-o", "- steer"), "cert first.example bob\ncert common *\n",
                   with_unix ? "unix - view\n" : ""));
  EXPECT_TRUE(rules.ok()) << rules.status();
  return *std::move(rules);
}

struct Case {
  const char* what;
  std::vector<absl::string_view> headers;
  std::vector<std::string> names;
  bool unix_socket = false;
  std::string caller;  // its name, or the words of the refusal
  bool refused = false;
};

TEST(Caller, IsFoundByTokenCertificateAndSocketInThisOrder) {
  const Case cases[] = {
      {"a token", {"Bearer secret-a"}, {}, false, "alice, token of line 3"},
      {"any case of the scheme", {"bEARER  secret-a "}, {}, false, "alice, token of line 3"},
      {"a token before a certificate", {"Bearer secret-o"}, {"common"}, true, "no tenant, token"},
      {"a wrong token", {"Bearer secret-b"}, {}, false, "the token is not known", true},
      {"a wrong token and a certificate", {"Bearer x"}, {"common"}, true, "not known", true},
      {"a longer token", {"Bearer secret-aa"}, {}, false, "not known", true},
      {"no token", {"Bearer "}, {}, true, "another form", true},
      {"an empty header", {""}, {}, true, "another form", true},
      {"another scheme", {"Basic secret-a"}, {}, true, "another form", true},
      {"the token alone", {"secret-a"}, {}, true, "another form", true},
      {"two headers", {"Bearer secret-a", "Bearer secret-a"}, {}, true, "several headers", true},
      {"a name of a certificate", {}, {"first.example"}, false, "bob, certificate of line 5"},
      {"the second name", {}, {"x", "common"}, true, "any tenant, certificate of line 6"},
      {"two known names", {}, {"first.example", "common"}, false, "bob, certificate"},
      {"another case of the name", {}, {"First.example"}, false, "no name in the client's", true},
      {"an unknown name at the socket", {}, {"x"}, true, "no tenant, Unix socket of line 7"},
      {"the socket", {}, {}, true, "no tenant, Unix socket of line 7"},
      {"nothing", {}, {}, false, "send a token", true},
  };
  const AccessRules rules = Rules(/*with_unix=*/true);
  for (const Case& one : cases) {
    const auto caller = FindCaller(rules, {one.headers, one.names, one.unix_socket});
    EXPECT_EQ(absl::IsUnauthenticated(caller.status()), one.refused) << one.what;
    EXPECT_THAT(caller.ok() ? caller->name : std::string(caller.status().message()),
                HasSubstr(one.caller))
        << one.what;
  }
  EXPECT_TRUE(absl::IsUnauthenticated(
      FindCaller(Rules(/*with_unix=*/false), {.unix_socket = true}).status()));
}

TEST(Caller, MayAskForItsOwnTenantOnly) {
  const AccessRules rules = Rules(/*with_unix=*/false);
  const auto alice = FindCaller(rules, {.authorization = {"Bearer secret-a"}});
  EXPECT_EQ(*TenantFor(*alice, ""), "alice");
  EXPECT_EQ(*TenantFor(*alice, "alice"), "alice");
  const absl::Status other = TenantFor(*alice, "bob").status();
  EXPECT_TRUE(absl::IsPermissionDenied(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("tenant: "));
  EXPECT_TRUE(absl::IsPermissionDenied(TenantFor(*alice, "Alice").status()));
  const auto gateway = FindCaller(rules, {.certificate_names = {"common"}});
  EXPECT_EQ(*TenantFor(*gateway, "whoever"), "whoever");
  EXPECT_EQ(*TenantFor(*gateway, ""), "");
  const auto operators = FindCaller(rules, {.authorization = {"Bearer secret-o"}});
  EXPECT_TRUE(absl::IsPermissionDenied(TenantFor(*operators, "").status()));
  EXPECT_TRUE(absl::IsPermissionDenied(TenantFor(*operators, "alice").status()));
}

TEST(Caller, IsNoMoreUrgentThanItsTenantMayBe) {
  const AccessRules rules = Rules(/*with_unix=*/false);
  EXPECT_EQ(PriorityFor(rules, "alice", -100), 10);
  EXPECT_EQ(PriorityFor(rules, "alice", 0), 10);
  EXPECT_EQ(PriorityFor(rules, "alice", 11), 11);
  EXPECT_EQ(PriorityFor(rules, "bob", -100), -100);
  EXPECT_EQ(PriorityFor(rules, "whoever", -100), -100);
}

TEST(Caller, OfADaemonThatAsksNobodyMayDoEverything) {
  EXPECT_EQ(*TenantFor(Anyone(), "alice"), "alice");
  EXPECT_EQ(Anyone().right, Right::kSteer);
}

}  // namespace
}  // namespace folio::access
