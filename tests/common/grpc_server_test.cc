#include "services/grpc/grpc_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "folio/v1/admin.grpc.pb.h"
#include "services/grpc/grpc_status.h"
#include "services/runtime/unix_socket.h"
#include "tests/common/temp_dir.h"

namespace folio {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<v1::Admin::Stub> Dial(const ListenAddress& address) {
  return v1::Admin::NewStub(
      grpc::CreateChannel(address.ToString(), grpc::InsecureChannelCredentials()));
}

class GrpcServerTest : public ::testing::Test {
 protected:
  GrpcServerOptions Options(const std::vector<std::string>& listen) {
    GrpcServerOptions options;
    for (const std::string& text : listen) options.listen.push_back(*ParseListenAddress(text));
    options.services = {&service_};
    return options;
  }
  // The service has no implementation, so a call that arrives is UNIMPLEMENTED.
  static bool Reaches(const ListenAddress& address) {
    grpc::ClientContext context;
    v1::ListPoolsResponse response;
    return Dial(address)->ListPools(&context, {}, &response).error_code() ==
           grpc::StatusCode::UNIMPLEMENTED;
  }

  const testing::TempDir dir_;
  v1::Admin::Service service_;
};

TEST_F(GrpcServerTest, ServesUnixAndTcpAndRemovesTheSocketFile) {
  const std::string path = dir_ / "s";
  auto server = GrpcServer::Start(Options({"unix:" + path, "127.0.0.1:0"}));
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_EQ((*server)->addresses().size(), 2U);
  EXPECT_NE((*server)->addresses()[1].port, 0);
  for (const ListenAddress& address : (*server)->addresses()) EXPECT_TRUE(Reaches(address));
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660U);
  (*server)->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(GrpcServerTest, RefusesALiveSocketAndLeavesItWorking) {
  const GrpcServerOptions options = Options({"unix:" + (dir_ / "s")});
  auto first = GrpcServer::Start(options);
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = GrpcServer::Start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process listens"));
  EXPECT_TRUE(Reaches(options.listen[0]));
}

TEST_F(GrpcServerTest, ReplacesADeadSocket) {
  const GrpcServerOptions options = Options({"unix:" + (dir_ / "s")});
  { auto dead = ListenUnix(dir_ / "s"); }
  ASSERT_TRUE(std::filesystem::exists(dir_ / "s"));
  auto server = GrpcServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_TRUE(Reaches(options.listen[0]));
}

TEST_F(GrpcServerTest, RefusesAPortThatIsTaken) {
  auto first = GrpcServer::Start(Options({"127.0.0.1:0"}));
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string taken = (*first)->addresses()[0].ToString();
  auto second = GrpcServer::Start(Options({taken}));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken));
}

TEST(GrpcStatus, GoesThereAndBack) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "why");
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
    EXPECT_EQ(ToGrpcStatus(status).error_code(), code);
  }
  // One that gRPC does not name, within what its type can hold.
  EXPECT_EQ(FromGrpcStatus({static_cast<grpc::StatusCode>(20), "odd"}).code(),
            absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace folio
