// How much memory a pool may have, and in what pages.
#include "services/manager/memory/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/common/temp_dir.h"

namespace folio::manager {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kPage = 12288;  // 16 tokens of three heads of 64

MachineMemory Parse(const std::string& text) {
  std::istringstream info(text);
  return ParseMemInfo(info);
}

TEST(MemInfo, TellsMemoryAndReservedHugePages) {
  const MachineMemory memory = Parse(
      "MemTotal:        8000 kB\nMemFree:          100 kB\nMemAvailable:    5000 kB\n"
      "HugePages_Total:      64\nHugePages_Free:       50\nHugePages_Rsvd:       20\n"
      "Hugepagesize:       2048 kB\n");
  EXPECT_EQ(memory.total, 8000U * 1024);
  EXPECT_EQ(memory.available, 5000U * 1024);
  EXPECT_EQ(memory.huge_page_bytes, 2 * kMiB);
  EXPECT_EQ(memory.free_huge_pages, 30U);
}

TEST(MemInfo, WithoutReservedHugePagesTheirSizeIsNoMatter) {
  EXPECT_EQ(Parse("HugePages_Total: 0\nHugepagesize: 2048 kB\n").huge_page_bytes, 0U);
  EXPECT_EQ(Parse("").total, 0U);
}

TEST(HugePages, PagesAreRoundedDownToFillThem) {
  const MachineMemory memory = {.huge_page_bytes = 2 * kMiB, .free_huge_pages = 1000};
  // 512 pages of 12 KiB are three huge pages of 2 MiB.
  const uint64_t pages = PagesThatFillHugePages(100 * kMiB / kPage, kPage, 60, memory);
  EXPECT_EQ(pages, 8192U);
  EXPECT_EQ(pages * kPage % (2 * kMiB), 0U);
  EXPECT_EQ(PagesThatFillHugePages(512, kPage, 60, memory), 512U);
  EXPECT_EQ(PagesThatFillHugePages(1023, kPage, 60, memory), 512U);
}

TEST(HugePages, NothingIsGivenUpInVain) {
  MachineMemory memory = {.huge_page_bytes = 2 * kMiB, .free_huge_pages = 1000};
  EXPECT_EQ(PagesThatFillHugePages(511, kPage, 60, memory), 511U);   // not one is filled
  EXPECT_EQ(PagesThatFillHugePages(600, kPage, 550, memory), 600U);  // too little for the model
  memory.free_huge_pages = 2;
  EXPECT_EQ(PagesThatFillHugePages(600, kPage, 60, memory), 600U);  // three are not free
  memory.free_huge_pages = 3;
  EXPECT_EQ(PagesThatFillHugePages(600, kPage, 60, memory), 512U);
  EXPECT_EQ(PagesThatFillHugePages(600, kPage, 60, MachineMemory{}), 600U);
}

TEST(HugePages, SharedMemoryGetsTransparentOnesOnlyInSomeModes) {
  for (const char* modes : {"[always] within_size advise never deny force",
                            "always [within_size] advise never deny force",
                            "always within_size [advise] never deny force",
                            "always within_size advise never deny [force]"}) {
    EXPECT_TRUE(TransparentForSharedMemory(modes)) << modes;
  }
  for (const char* modes : {"always within_size advise [never] deny force",
                            "always within_size advise never [deny] force", "", "always"}) {
    EXPECT_FALSE(TransparentForSharedMemory(modes)) << modes;
  }
}

class CgroupMemory : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = dir_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  MachineMemory Limited(const std::string& membership) {
    MachineMemory memory = {.total = 1000, .available = 900};
    LimitByCgroups(membership, dir_.path(), memory);
    return memory;
  }

  const folio::testing::TempDir dir_;
};

TEST_F(CgroupMemory, Version2TakesTheTightestOnTheWayUp) {
  Write("pods/one/memory.max", "700\n");
  Write("pods/one/memory.current", "100\n");
  Write("pods/memory.max", "800\n");
  Write("pods/memory.current", "750\n");
  Write("memory.max", "max\n");
  const MachineMemory memory = Limited("0::/pods/one\n");
  EXPECT_EQ(memory.total, 700U);
  EXPECT_EQ(memory.available, 50U);
  EXPECT_EQ(Limited("0::/elsewhere\n").total, 1000U);
}

TEST_F(CgroupMemory, Version2InsideAContainerReadsTheRoot) {
  Write("memory.max", "300\n");
  Write("memory.current", "400\n");  // over its limit for a moment
  const MachineMemory memory = Limited("0::/not/visible/here\n");
  EXPECT_EQ(memory.total, 300U);
  EXPECT_EQ(memory.available, 0U);
}

TEST_F(CgroupMemory, Version1FindsTheMemoryController) {
  Write("memory/box/memory.limit_in_bytes", "600\n");
  Write("memory/box/memory.usage_in_bytes", "250\n");
  Write("memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("cpu/box/memory.limit_in_bytes", "1\n");
  const MachineMemory memory = Limited("5:cpu:/box\n4:memory:/box\n0::/\n");
  EXPECT_EQ(memory.total, 600U);
  EXPECT_EQ(memory.available, 350U);
}

TEST_F(CgroupMemory, Version1MayBeMountedUnderSeveralControllers) {
  Write("hugetlb,memory/box/memory.limit_in_bytes", "500\n");
  EXPECT_EQ(Limited("4:hugetlb,memory:/box\n").total, 500U);
}

TEST_F(CgroupMemory, NonsenseLimitsNothing) {
  Write("memory.max", "lots\n");
  for (const char* text : {"", "\n", "::", "0:", "x:y", "0::relative", "0::/", "1:cpu:/"}) {
    EXPECT_EQ(Limited(text).total, 1000U) << text;
  }
}

}  // namespace
}  // namespace folio::manager
