// The file of --access is read again when it changes, and a wrong one is not used.
#include "services/access/access_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/time/clock.h"
#include "tests/common/temp_dir.h"

namespace folio::access {
namespace {

using ::testing::HasSubstr;

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc) << text;
}

// Waits until the list has looked again.
void LookAgain() { absl::SleepFor(ChangingFile::kInterval + absl::Milliseconds(50)); }

TEST(AccessList, IsReadAgainAndAWrongFileIsNotUsed) {
  const folio::testing::TempDir directory;
  const std::string path = directory.path() + "/access";
  WriteText(path, "tenant a\nunix a\n");
  auto list = AccessList::Open(path);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ((*list)->Current()->version, 1U);

  WriteText(path, "tenant b\ntenant c\nunix b\n");
  EXPECT_EQ((*list)->Current()->version, 1U) << "it looks once a second";
  LookAgain();
  const auto changed = (*list)->Current();
  EXPECT_EQ(changed->version, 2U);
  EXPECT_TRUE(changed->rules.tenants.contains("c"));

  WriteText(path, "tenant d\nunix e\n");
  LookAgain();
  EXPECT_EQ((*list)->Current(), changed);
  std::filesystem::remove(path);
  LookAgain();
  EXPECT_EQ((*list)->Current(), changed);
  WriteText(path, "tenant f\nunix f\n");
  LookAgain();
  EXPECT_TRUE((*list)->Current()->rules.tenants.contains("f"));
}

TEST(AccessList, NamesTheFileThatCannotBeUsed) {
  const folio::testing::TempDir directory;
  const std::string path = directory.path() + "/access";
  EXPECT_TRUE(absl::IsNotFound(AccessList::Open(path).status()));
  EXPECT_TRUE(absl::IsNotFound(AccessList::Open(directory.path()).status()));
  WriteText(path, "unix x\n");
  const absl::Status wrong = AccessList::Open(path).status();
  EXPECT_TRUE(absl::IsInvalidArgument(wrong));
  EXPECT_THAT(std::string(wrong.message()), HasSubstr(path + ": line 1: "));
  WriteText(path, std::string(ChangingFile::kMaxBytes + 1, '#'));
  EXPECT_THAT(std::string(AccessList::Open(path).status().message()), HasSubstr("is longer than"));
}

}  // namespace
}  // namespace folio::access
