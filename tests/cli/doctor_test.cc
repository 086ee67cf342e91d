// folioctl doctor and support-bundle: each check on facts, and the whole on a scripted manager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "services/cli/archive.h"
#include "services/cli/checks.h"
#include "services/cli/host_checks.h"
#include "tests/cli/fixed_manager.h"
#include "tests/cli/run_cli.h"
#include "tests/common/temp_dir.h"

namespace folio::cli {
namespace {

using ::folio::testing::CliResult;
using ::folio::testing::FillManager;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedAdmin;
using ::folio::testing::TempDir;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

auto Is(const std::string& name, Health health) {
  return AllOf(Field(&Check::name, name), Field(&Check::health, health));
}

TEST(Checks, AConnectionThatFailsSaysWhy) {
  const absl::Status refused = absl::UnavailableError("nobody answers");
  EXPECT_THAT(CheckConnection("manager", "unix:/tmp/folio-nowhere", refused).advice,
              HasSubstr("there is no /tmp/folio-nowhere"));
  EXPECT_THAT(CheckConnection("manager", "unix:/etc/passwd", refused).advice,
              HasSubstr("/etc/passwd is not a socket"));
  EXPECT_THAT(CheckConnection("worker", "host:1", refused).advice, HasSubstr("folio-worker runs"));
  EXPECT_EQ(CheckConnection("worker", "host:1", absl::OkStatus()).health, Health::kOk);
}

TEST(Checks, VersionsAreComparedWithoutTheirCommits) {
  EXPECT_EQ(CheckVersions("0.2.0 (a, Release)", "0.2.0 (b, Debug)").health, Health::kOk);
  EXPECT_EQ(CheckVersions("0.2.0 (a)", "0.3.0 (a)").health, Health::kWarn);
}

TEST(Checks, PoolsThatAreFullOrQuarantined) {
  ScriptedAdmin admin;
  FillManager(admin);
  Checks checks = CheckPools(admin.pools);
  EXPECT_THAT(checks, Contains(Is("room in pool 1", Health::kOk)));
  EXPECT_THAT(checks, Contains(Is("quarantine of pool 1", Health::kWarn)));
  EXPECT_THAT(checks, Contains(Is("huge pages of pool 1", Health::kWarn)));
  auto* pool = admin.pools.mutable_pools(0);
  pool->set_free_pages(20);
  pool->set_quarantined_pages(0);
  pool->set_huge_pages(true);
  pool->set_total_swap_slots(100);
  pool->set_used_swap_slots(99);
  checks = CheckPools(admin.pools);
  EXPECT_THAT(checks, Contains(Is("room in pool 1", Health::kWarn)));
  EXPECT_THAT(checks, Contains(Is("quarantine of pool 1", Health::kOk)));
  EXPECT_THAT(checks, Contains(Is("huge pages of pool 1", Health::kOk)));
  EXPECT_THAT(checks, Contains(Is("swap memory of pool 1", Health::kWarn)));
  EXPECT_THAT(CheckPools({}), Contains(Is("pool", Health::kWarn)));
}

TEST(Checks, WorkersThatHangOrAreLost) {
  folio::v1::ListWorkersResponse workers;
  workers.set_lease_ttl_ms(10000);
  const auto add = [&](const std::string& id, uint32_t left) {
    auto* worker = workers.add_workers();
    worker->set_worker_id(id);
    worker->set_lease_remaining_ms(left);
    return worker;
  };
  add("w1", 9000);
  add("w2", 1000);
  add("w3", 9000)->set_step_in_flight_ms(20000);
  add("w4", 9000)->set_draining(true);
  add("w5", 0)->mutable_fence()->set_blocked_pages(7);
  const Checks checks = CheckWorkers(workers);
  EXPECT_THAT(checks,
              ::testing::ElementsAre(Is("worker w1", Health::kOk), Is("worker w2", Health::kWarn),
                                     Is("worker w3", Health::kFail), Is("worker w4", Health::kWarn),
                                     Is("worker w5", Health::kFail)));
}

// A machine in a directory.
class Machine : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string file = directory_ / path.substr(1);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file) << text;
  }
  const TempDir directory_;
  Host host_{directory_ / ""};
};

TEST_F(Machine, SwapHugePagesAndDriver) {
  Write("/proc/swaps", "Filename\n");
  Checks checks = CheckMachine(host_, /*clock_is_synchronized=*/true, /*needs_gpu=*/false);
  EXPECT_THAT(checks, Not(Contains(Field(&Check::health, Not(Health::kOk)))));
  Write("/proc/swaps", "Filename\n/dev/sda2\n");
  Write("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [never]\n");
  checks = CheckMachine(host_, false, true);
  EXPECT_THAT(checks, Contains(Is("clock", Health::kWarn)));
  EXPECT_THAT(checks, Contains(Is("swap of the machine", Health::kWarn)));
  EXPECT_THAT(checks, Contains(Is("huge pages of the kernel", Health::kWarn)));
  EXPECT_THAT(checks, Contains(Is("GPU driver", Health::kFail)));
}

TEST_F(Machine, LimitsOfTheManager) {
  EXPECT_THAT(CheckProcess(host_, 7, 1000), SizeIs(1));  // not to be seen
  Write("/proc/7/comm", "folio-manager\n");
  Write("/proc/7/limits",
        "Limit  Soft Limit  Hard Limit  Units\n"
        "Max open files            1024      4096      files\n");
  Write("/proc/7/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/memory.max", "5000\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(host_.MemoryLimit(7), 5000U);
  EXPECT_THAT(CheckProcess(host_, 7, 1000),
              ::testing::ElementsAre(Is("descriptors of the manager", Health::kWarn),
                                     Is("memory limit of the manager", Health::kOk)));
  EXPECT_THAT(CheckProcess(host_, 7, 6000),
              Contains(Is("memory limit of the manager", Health::kFail)));
}

TEST_F(Machine, AnArchiveIsReadByTar) {
  const std::string path = directory_ / "x.tar.gz";
  ASSERT_TRUE(WriteArchive(path, {{"a/one", std::string(1000, 'x')}, {"a/two", ""}}).ok());
  const std::string list = directory_ / "list";
  ASSERT_EQ(std::system(("tar -xzf " + path + " -C " + (directory_ / "") + " && tar -tzf " + path +
                         " > " + list)
                            .c_str()),
            0);
  std::ifstream file(list);
  std::string first, second;
  file >> first >> second;
  EXPECT_EQ(first + " " + second, "a/one a/two");
  EXPECT_EQ(std::filesystem::file_size(directory_ / "a/one"), 1000U);
  EXPECT_FALSE(WriteArchive("/tmp/folio-nowhere/x.tar.gz", {}).ok());
}

TEST(Doctor, FailsWhereAProcessDoesNotAnswer) {
  ScriptedAdmin admin;
  FillManager(admin);
  setenv("FOLIO_MANAGER_ADDRESS", admin.address().c_str(), 1);
  setenv("FOLIO_ADDRESS", "unix:/tmp/folio-nowhere/w", 1);
  const CliResult result = Folioctl({"doctor", "--output", "json"});
  EXPECT_EQ(result.code, 8);
  EXPECT_THAT(result.err, HasSubstr("not well: worker"));
  const auto found = nlohmann::json::parse(result.out);
  EXPECT_EQ(found["checks"][0]["name"], "manager");
  EXPECT_EQ(found["checks"][0]["health"], "ok");
  EXPECT_EQ(found["checks"][1]["health"], "fail");
  EXPECT_GE(found["failed"], 1);
  const CliResult text = Folioctl({"doctor"});
  EXPECT_THAT(text.out, HasSubstr("there is no /tmp/folio-nowhere/w"));

  const TempDir directory;
  const std::string path = directory / "bundle.tar.gz";
  const CliResult bundle = Folioctl({"support-bundle", path});
  EXPECT_EQ(bundle.code, 0) << bundle.err;
  EXPECT_THAT(bundle.out, AllOf(HasSubstr("folio-support/doctor.json"),
                                HasSubstr("folio-support/events.jsonl"), HasSubstr(path)));
  unsetenv("FOLIO_MANAGER_ADDRESS");
  unsetenv("FOLIO_ADDRESS");
}

}  // namespace
}  // namespace folio::cli
