#include "services/worker/access_log.h"

#include <string>

#include "services/runtime/logging.h"

namespace folio::worker {
namespace {

const char* KindName(RequestKind kind) {
  switch (kind) {
    case RequestKind::kGenerate:
      return "generate";
    case RequestKind::kResume:
      return "resume";
    case RequestKind::kReplay:
      return "replay";
    case RequestKind::kScore:
      return "score";
  }
  return "unknown";
}

// Shorter times only make the line longer.
absl::Duration Shown(absl::Duration time) { return absl::Trunc(time, absl::Microseconds(100)); }

}  // namespace

// The names of the fields are always the same, so that a program can read a line by its columns.
void WriteAccessLine(const AccessRecord& record) {
  const std::string first_token =
      record.first_token.has_value() ? absl::FormatDuration(Shown(*record.first_token)) : "-";
  log::Info("request ended", {{"kind", KindName(record.kind)},
                              {"request_id", record.request_id},
                              {"traceparent", record.traceparent},
                              {"trace_id", record.trace_id},
                              {"sequence", record.sequence},
                              {"label", record.label},
                              {"tenant", record.tenant},
                              {"peer", record.peer},
                              {"prompt_tokens", record.prompt_tokens},
                              {"resumed_tokens", record.resumed_tokens},
                              {"generated_tokens", record.generated_tokens},
                              {"queued", Shown(record.queued)},
                              {"first_token", first_token},
                              {"total", Shown(record.total)},
                              {"policy", record.policy},
                              {"budget", record.budget},
                              {"end", record.end},
                              {"unread", record.unread},
                              {"reason", record.message}});
}

}  // namespace folio::worker
