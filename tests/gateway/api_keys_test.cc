// Keys, their hashes and their tenants.
#include "services/gateway/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/access/sha256.h"
#include "tests/common/temp_dir.h"

namespace folio::gateway {
namespace {

using ::testing::HasSubstr;

std::string Line(const std::string& key, const std::string& tenant) {
  return absl::StrCat(absl::BytesToHexString(access::Sha256(key)), " ", tenant, "\n");
}

TEST(ApiKeys, AreHashedAsSha256sumDoes) {
  EXPECT_EQ(absl::BytesToHexString(access::Sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(ApiKeys, AreReadFromLines) {
  const auto keys = ParseApiKeys("# ours\n\n" + Line("a", "red") + "  " + Line("b", "blue"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  ASSERT_EQ(keys->size(), 2);
  EXPECT_EQ((*keys)[1].hash, access::Sha256("b"));
  EXPECT_EQ((*keys)[1].tenant, "blue");
  for (const std::string& wrong : {std::string("word tenant"), std::string("ab"),
                                   std::string("\n\nx y z"), Line("a", "red ops")}) {
    EXPECT_EQ(ParseApiKeys(wrong).status().code(), absl::StatusCode::kInvalidArgument) << wrong;
  }
  const auto long_tenant = ParseApiKeys(Line("a", "red") + Line("a", std::string(65, 't')));
  EXPECT_THAT(std::string(long_tenant.status().message()), HasSubstr("line 2"));
}

TEST(ApiKeys, HaveTenants) {
  const testing::TempDir directory;
  const std::string path = directory / "keys";
  EXPECT_EQ(ApiKeys::Load(path).status().code(), absl::StatusCode::kNotFound);
  std::ofstream(path) << Line("sk-1", "red") << Line("sk-2", "blue operator");
  const auto keys = ApiKeys::Load(path);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->HolderOf("sk-1")->tenant, "red");
  EXPECT_EQ((*keys)->HolderOf("sk-2")->tenant, "blue");
  EXPECT_FALSE((*keys)->HolderOf("sk-1")->is_operator);
  EXPECT_TRUE((*keys)->HolderOf("sk-2")->is_operator);
  EXPECT_FALSE((*keys)->HolderOf("sk-3").has_value());
  EXPECT_FALSE((*keys)->HolderOf("").has_value());
}

}  // namespace
}  // namespace folio::gateway
