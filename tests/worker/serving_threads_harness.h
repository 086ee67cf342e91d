// ServingThreadsTest runs a worker with all of its threads, its manager, and clients of two tenants
// on several threads, in one process and over their real sockets. The pool runs dry now and then,
// and has swap memory beside it.
#ifndef FOLIO_TESTS_WORKER_SERVING_THREADS_HARNESS_H_
#define FOLIO_TESTS_WORKER_SERVING_THREADS_HARNESS_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/base/clock.h"
#include "services/client/client.h"
#include "services/grpc/grpc_server.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/server.h"
#include "services/worker/rpc/inference_service.h"
#include "services/worker/serving.h"
#include "tests/testing/scratch_directory.h"

namespace folio::worker::testing {

// A generation, and its answer when nothing else runs.
struct Question {
  v1::GenerateRequest request;
  std::vector<uint32_t> tokens;
};

// A request that gives the same tokens each time. `policy` is as in services/client/policy_text.h.
v1::GenerateRequest Repeatable(const std::string& policy, uint32_t budget, uint32_t prompt,
                               uint32_t max_tokens);

class ServingThreadsTest : public ::testing::Test {
 protected:
  // A client that does not read for so long loses its call.
  static constexpr absl::Duration kSlowClient = absl::Seconds(3);
  static constexpr int kClients = 6;

  static void SetUpTestSuite();
  // Starts both and asks the questions one after another.
  void SetUp() override;

  void StartManager();
  // The manager ends at once, with its pool.
  void LoseManager();
  // Waits until the worker has attached to the manager that was started last, and serves.
  void AwaitServing();
  // Checks that the manager has all pages back.
  void ExpectAllPagesFree();

  std::string WorkerAddress() const { return Address("worker"); }
  std::unique_ptr<client::Client> Connect() const;
  // Calls `act` again and again on a thread for each client until `meanwhile` returns. Another
  // thread reads all that operators and metrics may read.
  void WithClients(const std::function<void(client::Client&, std::mt19937&)>& act,
                   const std::function<void()>& meanwhile);
  // Waits until the clients have acted so many times more.
  void AwaitActs(int acts) const;
  // Waits until a sequence has been seen in swap memory.
  void AwaitSwap() const;
  // Waits until the worker has ended a call whose request has this label.
  void AwaitEnd(const std::string& label);

  const Question& Any(std::mt19937& random) const { return questions_[random() % 4]; }
  // Runs a question to its end. The answer must be right, or the status one of `ends`.
  void RunWhole(client::Client& client, std::mt19937& random,
                const std::vector<absl::StatusCode>& ends, absl::Duration resume) const;

  Serving& serving() { return *serving_; }
  // Calls of Generate and Score that have ended.
  size_t ended_calls();

 private:
  std::string Address(const std::string& name) const { return "unix:" + scratch_.File(name); }
  void Look();
  void OnEnded(const AccessRecord& record);

  const folio::testing::ScratchDirectory scratch_;
  const RealClock clock_;
  const manager::HostMemory memory_;
  std::vector<Question> questions_;
  std::atomic<int> acts_ = 0;
  std::atomic<bool> swapped_ = false;

  absl::Mutex ended_mutex_;
  std::vector<std::string> ended_labels_ ABSL_GUARDED_BY(ended_mutex_);
  absl::Mutex manager_mutex_;
  std::unique_ptr<manager::Server> manager_ ABSL_GUARDED_BY(manager_mutex_);
  RequestQueue queue_{16};
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<InferenceService> service_;
  ConnectionLimit connections_{64};
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace folio::worker::testing

#endif  // FOLIO_TESTS_WORKER_SERVING_THREADS_HARNESS_H_
