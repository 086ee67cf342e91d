#include "services/gateway/request_record.h"

#include "services/runtime/logging.h"

namespace folio::gateway {
namespace {

// Shorter times only make the line longer.
absl::Duration Shown(absl::Duration time) { return absl::Trunc(time, absl::Microseconds(100)); }

}  // namespace

bool IsProbe(const RequestRecord& record) {
  return record.endpoint == "/health" || record.endpoint == "/metrics" ||
         record.endpoint == "/console/api";
}

// The names of the fields are always the same, so that a program can read a line by its columns.
void WriteAccessLine(const RequestRecord& record) {
  const std::string first_token =
      record.first_token.has_value() ? absl::FormatDuration(Shown(*record.first_token)) : "-";
  log::Info("request ended", {{"request_id", record.request_id},
                              {"trace_id", record.trace_id},
                              {"method", record.method},
                              {"endpoint", record.endpoint},
                              {"status", record.status},
                              {"peer", record.peer},
                              {"tenant", record.tenant},
                              {"model", record.model},
                              {"worker", record.worker},
                              {"choices", record.choices},
                              {"stream", record.stream},
                              {"prompt_tokens", record.prompt_tokens},
                              {"generated_tokens", record.generated_tokens},
                              {"resumed", record.resumed},
                              {"replayed", record.replayed},
                              {"first_token", first_token},
                              {"total", Shown(record.total)},
                              {"reason", record.reason}});
}

}  // namespace folio::gateway
