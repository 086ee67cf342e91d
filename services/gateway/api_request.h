// ApiRequest is a request to one of the endpoints, with what every answer has: the request's id,
// the fields for browsers, and a record for log and metrics.
#ifndef FOLIO_SERVICES_GATEWAY_API_REQUEST_H_
#define FOLIO_SERVICES_GATEWAY_API_REQUEST_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/base/steady_time.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/openai/api_error.h"
#include "services/gateway/request_record.h"
#include "services/gateway/request_trace.h"

namespace folio::gateway {

// One thread at a time uses it.
class ApiRequest {
 public:
  // The request arrives now. The tracer is borrowed, and may be null. `ended` gets the record once,
  // when the request has its answer.
  ApiRequest(std::shared_ptr<Exchange> exchange, HttpFields fields, tracing::Tracer* tracer,
             std::function<void(const RequestRecord&)> ended);
  // A request that was not answered counts as one whose client has left.
  ~ApiRequest();
  ApiRequest(const ApiRequest&) = delete;
  ApiRequest& operator=(const ApiRequest&) = delete;

  RequestRecord record;

  const HttpRequest& http() const { return exchange_->request(); }
  Exchange& exchange() const { return *exchange_; }
  const RequestTrace& trace() const { return trace_; }
  absl::Duration age() const { return SteadyNow() - arrival_; }

  // Whole answers.
  void Reply(int status, std::string body, absl::string_view type = "application/json",
             HttpFields further = {});
  void Fail(const ApiError& error, HttpFields further = {});
  void Fail(const absl::Status& status) { Fail(ErrorOf(status)); }

  // An answer in pieces, as events of a stream. End takes the reason if it is not complete.
  void Begin(std::string first);
  void Write(absl::string_view piece) { exchange_->Write(piece); }
  void End(absl::string_view reason = "");
  // The client has left.
  void Leave();

 private:
  void Ended(int status);

  const std::shared_ptr<Exchange> exchange_;
  const HttpFields fields_;
  const std::function<void(const RequestRecord&)> ended_;
  const SteadyTime arrival_;
  const RequestTrace trace_;
  bool over_ = false;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_API_REQUEST_H_
