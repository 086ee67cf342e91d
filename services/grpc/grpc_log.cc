#include "services/grpc/grpc_log.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/runtime/logging.h"

namespace folio {
namespace {

// A peer without the right certificate comes again and again, and gRPC complains each time, of some
// with the words of the peer. This says so once a second, with the number of complaints since the
// last line.
void LogOfHandshakes(absl::string_view message) {
  static std::atomic<int64_t> next_seconds = 0;
  static std::atomic<int> complaints = 0;
  ++complaints;
  const int64_t now = absl::ToInt64Seconds(SteadyNow().since_zero());
  int64_t next = next_seconds;
  if (now < next || !next_seconds.compare_exchange_strong(next, now + 1)) return;
  log::Warning("a connection could not be encrypted",
               {{"complaints", complaints.exchange(0)}, {"last_reason", message}});
}

// Writes gRPC's own messages in our format.
void LogOfGrpc(gpr_log_func_args* args) {
  if (absl::StrContains(args->file, "ssl_transport_security"))
    return LogOfHandshakes(args->message);
  const log::Level level = args->severity == GPR_LOG_SEVERITY_ERROR  ? log::Level::kWarning
                           : args->severity == GPR_LOG_SEVERITY_INFO ? log::Level::kInfo
                                                                     : log::Level::kDebug;
  log::Write(level, "grpc", {{"detail", args->message}, {"line", args->line}});
}

// Does the same for Protobuf, which complains of each text of a peer that is not UTF-8. Its own way
// is to write to stderr, where a call would wait for the reader of the log.
void LogOfProtobuf(google::protobuf::LogLevel severity, const char* /*file*/, int line,
                   const std::string& message) {
  const log::Level level = severity == google::protobuf::LOGLEVEL_FATAL  ? log::Level::kError
                           : severity == google::protobuf::LOGLEVEL_INFO ? log::Level::kInfo
                                                                         : log::Level::kWarning;
  log::Write(level, "protobuf", {{"detail", message}, {"line", line}});
}

}  // namespace

void LogForGrpc() {
  gpr_set_log_function(&LogOfGrpc);
  // Protobuf's setter is not made for several threads.
  static google::protobuf::LogHandler* const before =
      google::protobuf::SetLogHandler(&LogOfProtobuf);
  (void)before;
}

}  // namespace folio
