// Where a worker learns which GPU its pages are on: KvManager.DescribePool of a real gRPC server.
#include "services/worker/pool/gpu_choice.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/worker/link/manager_channel.h"
#include "tests/common/temp_dir.h"

namespace folio::worker {
namespace {

using ::testing::HasSubstr;

// A manager of the last version: it has no DescribePool.
class OldManager : public v1::KvManager::Service {};

class Manager final : public OldManager {
 public:
  grpc::Status DescribePool(grpc::ServerContext* context, const v1::DescribePoolRequest* request,
                            v1::DescribePoolResponse* response) override {
    *response = answer;
    return grpc::Status::OK;
  }
  v1::DescribePoolResponse answer;
};

// GPUs that can be counted, as far as the choice goes.
class TwoGpus final : public Gpus {
 public:
  absl::StatusOr<std::vector<std::string>> Uuids() override {
    return std::vector<std::string>{"GPU-a", "GPU-b"};
  }
  absl::StatusOr<std::unique_ptr<Gpu>> Open(int number, uint64_t memory) override {
    opened.push_back(number);
    return absl::InternalError("opened");
  }
  std::vector<int> opened;
};

class GpuChoice : public ::testing::Test {
 protected:
  absl::Status Open(v1::KvManager::Service& service, const DeviceChoice& choice = {.cuda = true}) {
    const std::string address = "unix:" + (dir_ / "manager.sock");
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(&service);
    const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
    return OpenGpu(gpus_, choice, {}, MakeManagerChannel(address), absl::Seconds(20),
                   [] { return false; })
        .status();
  }

  const testing::TempDir dir_;
  TwoGpus gpus_;
  Manager manager_;
};

TEST_F(GpuChoice, TakesTheGpuThatThePagesAreOn) {
  manager_.answer.add_devices()->set_uuid("GPU-b");
  EXPECT_EQ(Open(manager_).message(), "opened");
  EXPECT_THAT(gpus_.opened, ::testing::ElementsAre(1));
}

TEST_F(GpuChoice, RefusesAnotherGpuThanThePagesAreOn) {
  manager_.answer.add_devices()->set_uuid("GPU-b");
  const absl::Status refused = Open(manager_, {.cuda = true, .number = 0});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("which is cuda:1 here"));
  EXPECT_TRUE(gpus_.opened.empty());
}

TEST_F(GpuChoice, RefusesPagesInHostMemory) {
  const absl::Status refused = Open(manager_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("pages are in host memory"));
}

TEST_F(GpuChoice, AManagerOfTheLastVersionIsNamedAsSuch) {
  OldManager old;
  const absl::Status refused = Open(old);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("does not know KvManager.DescribePool, so it is older than this worker"));
  EXPECT_TRUE(gpus_.opened.empty());
}

}  // namespace
}  // namespace folio::worker
