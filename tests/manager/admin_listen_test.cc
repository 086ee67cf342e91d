// --admin_listen of the program folio-manager: operators at addresses of their own.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "folio/v1/admin.grpc.pb.h"
#include "services/grpc/grpc_status.h"
#include "tests/manager/child_process.h"
#include "tests/manager/manager_harness.h"
#include "tests/manager/raw_grpc.h"

namespace folio::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kAdmin[] = "folio.v1.Admin";
constexpr char kKvManager[] = "folio.v1.KvManager";

absl::Status ListPools(const std::string& address) {
  const auto stub =
      v1::Admin::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::ListPoolsResponse response;
  return FromGrpcStatus(stub->ListPools(&context, {}, &response));
}

class AdminListen : public ::testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& more) const {
    std::vector<std::string> argv = {FOLIO_MANAGER_BINARY, "--listen=" + workers_,
                                     "--pool_bytes=64KiB"};
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  }

  const TempDir dir_;
  const std::string workers_ = "unix:" + (dir_ / "m.sock");
  // In a directory that the manager makes.
  const std::string operators_ = "unix:" + (dir_ / "admin/a.sock");
};

TEST_F(AdminListen, EachAddressServesItsOwnAlone) {
  ChildProcess manager(Command({"--admin_listen=" + operators_, "--admin-listen=127.0.0.1:0"}));
  ASSERT_NE(manager.ReadUntil("listening for operators address=" + operators_), "");
  ASSERT_NE(manager.ReadUntil("listening for operators address=127.0.0.1:"), "");
  EXPECT_EQ(ListPools(operators_), absl::OkStatus());
  EXPECT_EQ(ListPools(workers_).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(TestWorker(operators_).Attach().status().code(), absl::StatusCode::kUnimplemented);
  TestWorker worker(workers_);
  worker.Join();
  EXPECT_TRUE(worker.Open(SmallOpen(16, 16)).ok());

  for (const auto& [address, own, other] :
       {std::tuple(workers_, kKvManager, kAdmin), std::tuple(operators_, kAdmin, kKvManager)}) {
    for (const std::string& name : {std::string(), std::string("liveness"), std::string(own)}) {
      EXPECT_EQ(*Health(address, name), "SERVING") << address << " " << name;
    }
    EXPECT_EQ(Health(address, other).status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(*ReflectedServices(address), AllOf(HasSubstr(own), Not(HasSubstr(other))));
  }
}

TEST_F(AdminListen, DrainsAndLeavesNothing) {
  ChildProcess manager(Command({"--admin_listen=" + operators_, "--drain_timeout=60s"}));
  ASSERT_NE(manager.ReadUntil("listening for operators"), "") << manager.output();
  ChildProcess worker({FOLIO_TEST_WORKER_BINARY, workers_, "64", "2000"});
  ASSERT_NE(worker.ReadUntil("holding sequence"), "") << worker.output();
  manager.Signal(SIGTERM);
  ASSERT_NE(manager.ReadUntil("draining sequences=1"), "") << manager.output();
  EXPECT_EQ(*Health(operators_), "NOT_SERVING");
  EXPECT_EQ(*Health(operators_, kAdmin), "NOT_SERVING");
  EXPECT_EQ(ListPools(operators_), absl::OkStatus()) << "operators can watch it drain";
  EXPECT_EQ(worker.Wait(), 0) << worker.output();
  EXPECT_EQ(manager.Wait(), 0) << manager.output();
  for (const char* socket : {"m.sock", "admin/a.sock", "export.sock"}) {
    EXPECT_FALSE(std::filesystem::exists(dir_ / socket)) << socket;
  }
}

TEST_F(AdminListen, WithoutItOneAddressServesBoth) {
  ChildProcess manager(Command({}));
  ASSERT_TRUE(WaitUntilServing(workers_)) << manager.output();
  EXPECT_EQ(ListPools(workers_), absl::OkStatus());
  EXPECT_EQ(*Health(workers_, kAdmin), "SERVING");
  EXPECT_EQ(*Health(workers_, kKvManager), "SERVING");
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 0);
  EXPECT_THAT(manager.output(), Not(HasSubstr("listening for operators")));
}

TEST_F(AdminListen, AnAddressThatItCannotHaveIsRefusedByName) {
  const std::string port = "127.0.0.1:7009";
  const struct {
    std::vector<std::string> flags;
    std::string words;
  } cases[] = {
      {{"--admin_listen=here"}, "--admin_listen=here: "},
      {{"--admin_listen=" + port, "--admin_listen=" + port}, "is given twice"},
      {{"--admin_listen=" + workers_},
       "--admin_listen=" + workers_ + ": is an address of --listen"},
      {{"--admin_listen=unix:" + (dir_ / "export.sock")}, "is an address of --export_socket"},
      {{"--admin_listen=" + port, "--health_listen=" + port},
       "--health_listen=" + port + ": is an address of --admin_listen"},
      {{"--admin_listen=" + port, "--metrics_listen=" + port},
       "--metrics_listen=" + port + ": is an address of gRPC already"},
  };
  for (const auto& c : cases) {
    ChildProcess manager(Command(c.flags));
    EXPECT_EQ(manager.Wait(), 2) << c.words;
    EXPECT_THAT(manager.output(), HasSubstr(c.words));
  }
}

}  // namespace
}  // namespace folio::testing
