// RequestRecord is what the log and the metrics say of one request. WriteAccessLine writes the line
// of a request into the log, at level info.
#ifndef FOLIO_SERVICES_GATEWAY_REQUEST_RECORD_H_
#define FOLIO_SERVICES_GATEWAY_REQUEST_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace folio::gateway {

struct RequestRecord {
  std::string request_id;
  std::string trace_id;  // in hexadecimal digits, or empty
  std::string endpoint;  // such as "/v1/models", or "other"
  std::string method;
  std::string peer;
  std::string tenant;
  std::string model;
  std::string worker;  // its address
  size_t choices = 0;  // 0 for a request that is not for text
  bool stream = false;
  int status = 0;
  uint64_t prompt_tokens = 0;
  uint64_t generated_tokens = 0;
  uint32_t resumed = 0;   // times that another worker continued a choice
  uint32_t replayed = 0;  // times that a choice was computed again because its sequence was gone
  std::optional<absl::Duration> first_token;
  absl::Duration total;
  std::string reason;  // of an answer that is an error
};

// Probes, scrapes and questions of the console come every few seconds and say nothing new.
bool IsProbe(const RequestRecord& record);

// Any thread. Like every line it waits for no reader of the log.
void WriteAccessLine(const RequestRecord& record);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_REQUEST_RECORD_H_
