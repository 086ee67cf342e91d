// AccessEntry gathers what one line of the access log and the spans of a trace say of a request,
// while its call runs.
#ifndef FOLIO_SERVICES_WORKER_RPC_ACCESS_ENTRY_H_
#define FOLIO_SERVICES_WORKER_RPC_ACCESS_ENTRY_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "folio/v1/types.pb.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"
#include "services/worker/engine/events.h"
#include "services/worker/rpc/request_metrics.h"
#include "services/worker/rpc/request_trace.h"

namespace folio::worker {

// The texts of a client in a line are cut to so many bytes.
inline constexpr size_t kMaxAccessText = 200;

// One line of the access log, as plain values. Texts are empty and numbers 0 if they are unknown.
struct AccessRecord {
  RequestKind kind = RequestKind::kGenerate;
  std::string request_id;   // the client's metadata "x-request-id"
  std::string traceparent;  // the client's metadata "traceparent", if it is well formed
  std::string trace_id;     // in hexadecimal digits
  SequenceId sequence;      // 0 if the manager gave it none
  std::string label;
  std::string tenant;
  std::string peer;
  uint32_t prompt_tokens = 0;
  uint32_t resumed_tokens = 0;    // that the client had from another call
  uint32_t generated_tokens = 0;  // that this call gave
  absl::Duration queued;          // until the request had pages, or until its end
  std::optional<absl::Duration> first_token;
  absl::Duration total;
  std::string policy;
  std::string budget;   // "256", "25%" of the prompt, or "0" for none
  std::string end;      // "eos", "stop", "length", "scored", or the name of a status code
  std::string message;  // of a status that is not OK
  bool unread = false;  // the client left before it had all of the answer
};

// Takes a record when its call has ended. Called on gRPC's threads.
using AccessLog = std::function<void(const AccessRecord&)>;

// AccessedRequest is the part of the client's message that the line repeats.
struct AccessedRequest {
  RequestKind kind = RequestKind::kGenerate;
  std::string label;
  std::string tenant;
  folio::v1::CacheOptions cache;  // replaced by the manager's, which has every default filled in
  uint32_t resumed_tokens = 0;
};

// The calls come one after another. They only copy a few values, because some come from the step
// loop. The line is made in Write, which the call makes at its end.
class AccessEntry {
 public:
  // The request arrives now. The log is borrowed; with an empty one nothing is written. So is the
  // tracer, which may be null.
  AccessEntry(const AccessLog* log, tracing::Tracer* tracer,
              const grpc::CallbackServerContext& context, AccessedRequest request);

  // For the step loop. Null unless the call is traced.
  const std::shared_ptr<SequenceTrace>& trace() const { return trace_.notes(); }

  void OnEvent(const Event& event);
  void OnEnd(const absl::Status& status);
  // The status is about to be given to gRPC, after the last message.
  void OnAnswer();
  // A message could not be given to the client.
  void OnUnread() { record_.unread = true; }
  // The call has ended.
  void Write();

 private:
  // Neither the log nor a trace wants to know of the call.
  bool off() const { return !*log_ && !trace_.recording(); }

  const AccessLog* const log_;
  const RequestTrace trace_;
  CallTimes times_;
  AccessRecord record_;
  folio::v1::CacheOptions asked_;
  std::string cache_;  // as the manager resolved it, serialised
  FinishReason reason_ = FinishReason::kUnspecified;
  absl::Status status_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_ACCESS_ENTRY_H_
