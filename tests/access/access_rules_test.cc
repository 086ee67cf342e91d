// The file of --access: what it may say, and by line what it may not.
#include "services/access/access_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/access/sha256.h"

namespace folio::access {
namespace {

using ::testing::HasSubstr;

std::string Hash(const std::string& token) {
  return absl::StrCat("sha256:", absl::BytesToHexString(Sha256(token)));
}

TEST(Sha256, IsThatOfSha256sum) {
  EXPECT_EQ(absl::BytesToHexString(Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(ParseSha256(absl::BytesToHexString(Sha256("a"))), Sha256("a"));
}

TEST(AccessRules, HaveTenantsTokensCertificatesAndTheSocket) {
  const auto rules = ParseAccessRules(absl::StrCat(
      "# ours\n\n"
      "tenant alice   sequences=8 pages=20000 requests_per_minute=600 priority=10  # paid\n"
      "\ttenant bob\r\n",
      "token ", Hash("a"), "   alice\n", "token ", Hash("o"), " - view\n", "token ", Hash("b"),
      " bob steer #both\n",
      "cert gateway.example * view\n"
      "cert bob@example bob\n"
      "unix * steer"));
  ASSERT_TRUE(rules.ok()) << rules.status();
  ASSERT_EQ(rules->tenants.size(), 2U);
  EXPECT_EQ(
      rules->tenants.at("alice"),
      (TenantLimits{.sequences = 8, .pages = 20000, .requests_per_minute = 600, .priority = 10}));
  EXPECT_EQ(rules->tenants.at("bob"), TenantLimits{});
  ASSERT_EQ(rules->tokens.size(), 3U);
  EXPECT_EQ(rules->tokens[0].hash, Sha256("a"));
  EXPECT_EQ(rules->tokens[0].grant,
            (Grant{.line = 5, .scope = TenantScope::kOne, .tenant = "alice"}));
  EXPECT_EQ(rules->tokens[1].grant, (Grant{.line = 6, .right = Right::kView}));
  EXPECT_EQ(
      rules->tokens[2].grant,
      (Grant{.line = 7, .scope = TenantScope::kOne, .tenant = "bob", .right = Right::kSteer}));
  EXPECT_EQ(rules->certificates.at("gateway.example"),
            (Grant{.line = 8, .scope = TenantScope::kAny, .right = Right::kView}));
  EXPECT_EQ(rules->certificates.at("bob@example").tenant, "bob");
  EXPECT_EQ(rules->unix_socket,
            (Grant{.line = 10, .scope = TenantScope::kAny, .right = Right::kSteer}));
}

struct Row {
  std::string text;
  std::string words;  // of the refusal, or empty if the text is right
};

class AccessLines : public ::testing::TestWithParam<Row> {};

TEST_P(AccessLines, AreRightOrRefusedWithTheirNumber) {
  const auto rules = ParseAccessRules(GetParam().text);
  if (GetParam().words.empty()) {
    EXPECT_TRUE(rules.ok()) << rules.status();
    return;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(rules.status())) << rules.status();
  EXPECT_THAT(std::string(rules.status().message()), HasSubstr(GetParam().words));
}

// One caller, so that a file lets somebody in.
const char kUnix[] = "unix * steer\n";
std::string With(const std::string& line) { return kUnix + line; }
std::string Digits(size_t count) { return std::string(count, 'a'); }

INSTANTIATE_TEST_SUITE_P(
    Right, AccessLines,
    ::testing::Values(Row{"unix - view", ""}, Row{"unix -\tsteer\n\n\n", ""},
                      Row{"unix * view # why", ""}, Row{With("tenant a"), ""},
                      Row{With("tenant a#b"), ""}, Row{With("tenant \xc3\xa4\xc3\xb6"), ""},
                      Row{With("tenant a sequences=0 pages=0"), ""},
                      Row{With("tenant a sequences=4294967295"), ""},
                      Row{With("tenant a priority=-100"), ""},
                      Row{With("tenant a priority=100 requests_per_minute=1"), ""},
                      Row{With("tenant " + std::string(64, 't')), ""},
                      Row{"cert a.example a\ntenant a\n", ""},  // the order does not matter
                      Row{"token sha256:" + std::string(64, 'A') + " * view", ""},
                      Row{With("  # tenant a sequences=x"), ""}));

INSTANTIATE_TEST_SUITE_P(
    Wrong, AccessLines,
    ::testing::Values(
        Row{"", "lets no caller in"}, Row{"tenant a\n", "lets no caller in"},
        Row{"# unix * steer", "lets no caller in"}, Row{With("user a"), "line 2: a line cannot"},
        Row{With("Tenant a"), "line 2"}, Row{With("tokens x a"), "tenant, token, cert, unix or #"},
        Row{With("\n\ntenant"), "line 4: the tenant's name is missing"},
        Row{With("tenant #a"), "name is missing"}, Row{With("tenant *"), "choose another name"},
        Row{With("tenant -"), "choose another name"},
        Row{With("tenant sequences=8"), "write tenant NAME"},
        Row{With("tenant " + std::string(65, 't')), "65 bytes long, the most is 64"},
        Row{With("tenant a\ntenant b\ntenant a"), "line 4: the tenant \"a\" is defined twice"},
        Row{With("tenant a sequences"), "\"sequences\" is not a limit"},
        Row{With("tenant a sequence=1"), "\"sequence=1\" is not a limit"},
        Row{With("tenant a sequences="), "sequences=: give a number from 0 to 4294967295"},
        Row{With("tenant a sequences=-1"), "give a number from 0"},
        Row{With("tenant a sequences=4294967296"), "give a number from 0"},
        Row{With("tenant a pages=1e3"), "pages=1e3: give a number"},
        Row{With("tenant a requests_per_minute=0"), "give a number from 1 to 1000000"},
        Row{With("tenant a requests_per_minute=1000001"), "give a number from 1 to 1000000"},
        Row{With("tenant a priority=101"), "give a number from -100 to 100"},
        Row{With("tenant a pages=1 pages=1"), "line 2: pages is given twice"},
        Row{With("token"), "token needs sha256:"}, Row{With("token secret a"), "token needs"},
        Row{With("token sha256:" + Digits(63) + " * view"), "64 hexadecimal digits"},
        Row{With("token sha256:" + Digits(65) + " * view"), "64 hexadecimal digits"},
        Row{With("token sha256:" + Digits(63) + "g * view"), "64 hexadecimal digits"},
        Row{With("token " + Digits(64) + " * view"), "token needs sha256:"},
        Row{With("token sha512:" + Digits(64) + " * view"), "token needs sha256:"},
        Row{With("token sha256:" + Digits(64)), "a tenant must follow"},
        Row{With("token sha256:" + Digits(64) + " *\ntoken sha256:" + std::string(64, 'A') + " *"),
            "line 3: the token is that of line 2"},
        Row{With("token sha256:" + Digits(64) + " alice"),
            "line 2: no line defines the tenant \"alice\": add the line: tenant alice"},
        Row{With("cert"), "the name in the certificate is missing"},
        Row{With("cert a.example"), "a tenant must follow"},
        Row{With("cert a.example alice"), "no line defines the tenant \"alice\""},
        Row{With("cert a.example *\ncert a.example - view"), "is that of line 2"},
        Row{With("unix - view"), "unix is given on line 1 already"},
        Row{"unix", "a tenant must follow"}, Row{"unix -", "the line gives nothing"},
        Row{With("cert a -"), "the line gives nothing"},
        Row{"unix * admin", "\"admin\" is not a right: give view"},
        Row{"unix * View", "is not a right"},
        Row{"unix * view steer", "\"steer\" is a word too many"},
        Row{With("tenant \xff"), "line 2: is not UTF-8"},
        Row{With(std::string("tenant a\0b", 10)), "line 2: is not UTF-8"},
        Row{"\xef\xbb\xbfunix * steer", "line 1: a line cannot begin with"}));

TEST(AccessRules, DoNotShowWhatMayBeAToken) {
  const auto rules = ParseAccessRules("unix * steer\ntoken hunter2 alice\n");
  EXPECT_THAT(std::string(rules.status().message()), ::testing::Not(HasSubstr("hunter2")));
}

TEST(AccessRules, AreBounded) {
  std::string tenants = kUnix, tokens = kUnix;
  for (size_t i = 0; i <= kMaxRules; ++i) {
    absl::StrAppend(&tenants, "tenant t", i, "\n");
    absl::StrAppend(&tokens, "token ", Hash(absl::StrCat(i)), " *\n");
  }
  EXPECT_THAT(std::string(ParseAccessRules(tenants).status().message()),
              HasSubstr("line 10002: there are more than 10000 tenants"));
  EXPECT_THAT(std::string(ParseAccessRules(tokens).status().message()),
              HasSubstr("line 10002: there are more than 10000 tokens"));
}

}  // namespace
}  // namespace folio::access
