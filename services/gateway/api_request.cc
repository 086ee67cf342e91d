#include "services/gateway/api_request.h"

#include "absl/strings/str_cat.h"

namespace folio::gateway {
namespace {

constexpr int kClientLeft = 499;  // nginx's number

HttpReply ReplyWith(int status, absl::string_view type, const HttpFields& fields) {
  HttpReply reply;
  reply.status = status;
  reply.type = std::string(type);
  reply.fields = fields;
  return reply;
}

}  // namespace

ApiRequest::ApiRequest(std::shared_ptr<Exchange> exchange, HttpFields fields,
                       tracing::Tracer* tracer, std::function<void(const RequestRecord&)> ended)
    : exchange_(std::move(exchange)),
      fields_(std::move(fields)),
      ended_(std::move(ended)),
      arrival_(SteadyNow()),
      trace_(tracer, http()) {
  record.trace_id = trace_.trace_id();
  record.method = http().method;
  record.peer = http().peer;
}

ApiRequest::~ApiRequest() { Leave(); }

void ApiRequest::Ended(int status) {
  if (std::exchange(over_, true)) return;
  record.status = status;
  record.total = age();
  ended_(record);
  trace_.End(http(), record, arrival_);
}

void ApiRequest::Reply(int status, std::string body, absl::string_view type, HttpFields further) {
  HttpReply reply = ReplyWith(status, type, fields_);
  reply.fields.insert(reply.fields.end(), further.begin(), further.end());
  reply.body = std::move(body);
  exchange_->Reply(reply);
  Ended(status);
}

void ApiRequest::Fail(const ApiError& error, HttpFields further) {
  record.reason = error.message;
  if (error.retry_after > 0) {
    further.emplace_back("Retry-After", absl::StrCat(error.retry_after));
  }
  Reply(error.http, ErrorBody(error), "application/json", std::move(further));
}

void ApiRequest::Begin(std::string first) {
  HttpReply reply = ReplyWith(200, "text/event-stream; charset=utf-8", fields_);
  reply.fields.emplace_back("Cache-Control", "no-cache");
  // A proxy such as nginx would otherwise gather the events.
  reply.fields.emplace_back("X-Accel-Buffering", "no");
  reply.body = std::move(first);
  exchange_->Begin(reply);
}

void ApiRequest::End(absl::string_view reason) {
  record.reason = std::string(reason);
  exchange_->End();
  Ended(200);
}

void ApiRequest::Leave() { Ended(kClientLeft); }

}  // namespace folio::gateway
