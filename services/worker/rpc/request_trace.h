// RequestTrace is a call's place in a trace, and makes the call's spans at its end: the call itself
// and in it `queue`, `prefill`, `decode`, and a `plan` for each of the manager's plans.
#ifndef FOLIO_SERVICES_WORKER_RPC_REQUEST_TRACE_H_
#define FOLIO_SERVICES_WORKER_RPC_REQUEST_TRACE_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "services/base/steady_time.h"
#include "services/tracing/span.h"
#include "services/tracing/tracer.h"
#include "services/worker/engine/sequence_trace.h"

namespace folio::worker {

struct AccessRecord;

// When what happened to a call.
struct CallTimes {
  SteadyTime arrival;
  std::optional<SteadyTime> started;      // it has pages
  std::optional<SteadyTime> first_token;  // was given to the client, or scored
  std::optional<SteadyTime> ended;        // the step loop has ended it
  SteadyTime answered;                    // gRPC gets its status, so no client has it before
};

// Thread-compatible.
class RequestTrace {
 public:
  // Borrows the tracer. With a null one nothing is traced, and the line of the log has the trace of
  // the client.
  RequestTrace(tracing::Tracer* tracer, const grpc::CallbackServerContext& context);

  bool recording() const { return notes_ != nullptr; }
  // The client's field, if it is well formed.
  const std::string& traceparent() const { return traceparent_; }
  // In hexadecimal digits, or empty if the call is in no trace.
  const std::string& trace_id() const { return trace_id_; }
  // For the step loop. Null unless the call is recorded.
  const std::shared_ptr<SequenceTrace>& notes() const { return notes_; }

  // The call has ended. Precondition: recording().
  void End(const AccessRecord& record, const absl::Status& status, const CallTimes& times) const;

 private:
  tracing::Tracer* tracer_;
  std::string traceparent_, trace_id_;
  tracing::SpanContext context_;
  std::shared_ptr<SequenceTrace> notes_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_REQUEST_TRACE_H_
