// Gate decides whether a gRPC call may be served: it finds the caller, and asks whether the caller
// may do what the call does. Each refusal is counted, and logged at a bounded rate.
#ifndef FOLIO_SERVICES_ACCESS_GATE_H_
#define FOLIO_SERVICES_ACCESS_GATE_H_

#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/access/access_list.h"
#include "services/access/caller.h"
#include "services/base/steady_time.h"

namespace folio::access {

// A Need is what a call needs of its caller.
enum class Need : uint8_t { kTenant, kView, kSteer };

// Thread-safe.
class Gate {
 public:
  struct Refusals {
    uint64_t unauthenticated = 0;
    uint64_t denied = 0;
  };

  // Without a list every caller may do everything.
  explicit Gate(std::shared_ptr<AccessList> list) : list_(std::move(list)) {}

  // The caller of a call that it may make. `call` is its name, such as "Drain". UNAUTHENTICATED:
  // the caller is not known, and the words say what to show. PERMISSION_DENIED: it lacks a right.
  absl::StatusOr<Caller> Admit(const grpc::ServerContextBase& context, absl::string_view call,
                               Need need);
  // For a service that is for processes of this machine alone, which the permissions of a Unix
  // socket guard. PERMISSION_DENIED over TCP, if there is a list.
  absl::Status AdmitLocal(const grpc::ServerContextBase& context, absl::string_view call);

  // As the function of this name. Without a list all priorities are allowed.
  int32_t PriorityFor(absl::string_view tenant, int32_t priority);
  // Counts and logs a refusal that another part decided. Does nothing for other codes than
  // PERMISSION_DENIED and UNAUTHENTICATED, and without a list.
  void Note(const grpc::ServerContextBase& context, absl::string_view call,
            absl::string_view caller, const absl::Status& why);

  bool knows_callers() const { return list_ != nullptr; }
  Refusals refusals() const { return {unauthenticated_.load(), denied_.load()}; }

 private:
  // Whether the log has room for one more line. `dropped` gets the lines that had none.
  bool MayLog(uint64_t* dropped);

  const std::shared_ptr<AccessList> list_;
  std::atomic<uint64_t> unauthenticated_ = 0;
  std::atomic<uint64_t> denied_ = 0;

  absl::Mutex mutex_;
  SteadyTime filled_ ABSL_GUARDED_BY(mutex_) = SteadyTime::InfinitePast();
  uint64_t lines_ ABSL_GUARDED_BY(mutex_) = 0;    // that may be written now
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last line
};

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_GATE_H_
