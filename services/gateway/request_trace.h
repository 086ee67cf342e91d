// RequestTrace is a request's place in a trace. It makes the request's span when it has its answer,
// and tells the worker to continue the trace.
#ifndef FOLIO_SERVICES_GATEWAY_REQUEST_TRACE_H_
#define FOLIO_SERVICES_GATEWAY_REQUEST_TRACE_H_

#include <string>
#include <utility>
#include <vector>

#include "services/base/steady_time.h"
#include "services/gateway/http/message.h"
#include "services/gateway/request_record.h"
#include "services/tracing/span.h"
#include "services/tracing/tracer.h"

namespace folio::gateway {

// Thread-compatible.
class RequestTrace {
 public:
  // Borrows the tracer. With a null one nothing is traced, and the worker gets what the client has
  // sent.
  RequestTrace(tracing::Tracer* tracer, const HttpRequest& http);

  // In hexadecimal digits, or empty if the request is in no trace.
  std::string trace_id() const;
  // The fields of a call to a worker.
  void AddTo(std::vector<std::pair<std::string, std::string>>* metadata) const;
  // The request has its answer.
  void End(const HttpRequest& http, const RequestRecord& record, SteadyTime arrival) const;

 private:
  tracing::Tracer* tracer_;
  tracing::SpanContext context_;  // of the client, without a tracer
  bool exists_ = false;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_REQUEST_TRACE_H_
