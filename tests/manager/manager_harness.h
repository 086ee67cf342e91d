// This harness runs the real manager in this process, and workers that speak to it over its Unix
// socket.
#ifndef FOLIO_TESTS_MANAGER_MANAGER_HARNESS_H_
#define FOLIO_TESTS_MANAGER_MANAGER_HARNESS_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/admin.grpc.pb.h"
#include "folio/v1/kv_manager.grpc.pb.h"
#include "services/base/clock.h"
#include "services/base/protocol.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/server.h"
#include "services/runtime/pool_socket.h"
#include "tests/common/manual_clock.h"
#include "tests/common/temp_dir.h"

namespace folio::testing {

// Two layers, one head of 8, pages of 16 tokens and 512 bytes.
v1::ModelLayout SmallLayout();
constexpr uint64_t kSmallPageBytes = 512;

// `prompt` tokens under paged_eviction with this budget, or `full` when it is 0.
v1::OpenSequence SmallOpen(uint32_t prompt, uint32_t max_new, uint32_t budget = 0);

constexpr char kSmallResumeToken[] = "0123456789abcdef";

// Asks `done` now and then until it is true; false after 20 s.
bool Eventually(const std::function<bool()>& done);

// Polls an address until something is served there; false after 20 s.
bool WaitUntilServing(const std::string& address);

// One worker. Attach, Fetch, Begin in this order; each may be left out to see what happens.
class TestWorker {
 public:
  explicit TestWorker(const std::string& manager_address);
  // Ends the session without a goodbye.
  ~TestWorker();

  // Sets the device that it says it computes on. At first this is the CPU.
  void ComputeOn(v1::DeviceKind device) { device_ = device; }
  // Attach names this attachment's session as the previous one.
  void Follows(const v1::AttachResponse& previous);

  absl::StatusOr<v1::AttachResponse> Attach(const v1::ModelLayout& layout = SmallLayout(),
                                            uint32_t protocol_version = kProtocolVersion,
                                            uint32_t newest_protocol_version = 0);
  absl::Status Fetch();
  // Opens the stream with the hello of this worker; the answer to it.
  absl::Status Begin();
  // All three; ends the test's process when one fails, since the test is about something else.
  void Join();

  // Sends and waits for the answer. `step` is filled in. An error is the stream's end.
  absl::StatusOr<v1::SessionReply> Call(v1::SessionRequest request = {});
  // A step that brings the sequence to this length and samples so many tokens.
  absl::StatusOr<v1::SessionReply> Commit(const v1::OpenResult& opened, uint32_t length,
                                          uint32_t sampled);
  // As it is.
  absl::StatusOr<v1::SessionReply> CallRaw(const v1::SessionRequest& request);
  absl::StatusOr<v1::OpenResult> Open(const v1::OpenSequence& open);
  absl::StatusOr<v1::ClaimResult> Claim(uint64_t sequence,
                                        const std::string& token = kSmallResumeToken);
  // Half-closes and waits for the end.
  absl::Status End();
  // Waits for the end of a stream that is half-closed already.
  absl::Status Finish();

  absl::StatusOr<v1::DescribePoolResponse> DescribePool();

  const v1::AttachResponse& attached() const { return attached_; }
  v1::AttachResponse& attached() { return attached_; }
  const PoolDescriptors& descriptors() const { return descriptors_; }
  // The stream itself, for unusual orders.
  using Stream = grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionReply>;
  Stream& stream();
  uint64_t NextStep() { return ++step_; }

 private:
  std::unique_ptr<v1::KvManager::Stub> stub_;
  v1::DeviceKind device_ = v1::DEVICE_KIND_CPU;
  std::optional<v1::PreviousSession> previous_;
  v1::AttachResponse attached_;
  PoolDescriptors descriptors_;
  std::unique_ptr<grpc::ClientContext> context_;  // one per stream
  std::unique_ptr<Stream> stream_;
  uint64_t step_ = 0;
};

struct HarnessOptions {
  uint64_t pool_bytes = 128 * kSmallPageBytes;
  absl::Duration lease_ttl = absl::Seconds(60);
  absl::Duration orphan_ttl = absl::ZeroDuration();
  absl::Duration kill_fenced_after = absl::ZeroDuration();
  const Clock* clock = nullptr;  // null: real time
};

class ManagerHarness {
 public:
  explicit ManagerHarness(const HarnessOptions& options = {});

  std::string address() const { return "unix:" + (dir_ / "manager.sock"); }
  std::string export_socket() const { return dir_ / "export.sock"; }
  manager::Server& server() { return *server_; }
  cache::Coordinator& coordinator() const { return server_->registry().pool()->coordinator(); }
  v1::Admin::Stub& admin() { return *admin_; }

  // The state of the one pool and of a sequence, as Admin tells it.
  v1::Pool PoolState();
  v1::GetSequenceResponse SequenceState(uint64_t id);

 private:
  const TempDir dir_;
  const RealClock real_clock_;
  const manager::HostMemory memory_;
  std::unique_ptr<manager::Server> server_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

// The process of the worker's rank 0, or 0 if it is unknown.
pid_t PidOf(const manager::WorkerRegistry& registry, WorkerId worker);

// A pool's one-line state in failure messages.
std::string Show(const v1::Pool& pool);

}  // namespace folio::testing

#endif  // FOLIO_TESTS_MANAGER_MANAGER_HARNESS_H_
