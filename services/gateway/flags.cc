#include "services/gateway/flags.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/upstream_flags.h"
#include "services/metrics/listen_flag.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/connection_flag.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "services/runtime/tls_flags.h"
#include "services/tracing/trace_flags.h"

ABSL_FLAG(std::vector<std::string>, listen, {"127.0.0.1:8000"},
          "addresses for HTTP, host:port or unix:/path; several with commas or by giving it again");
ABSL_FLAG(
    int, threads, 0,
    "threads that serve connections, from 1 to 64; 0 is the cores of this machine, at most 4");
ABSL_FLAG(std::string, api_keys, "",
          "a file with a line for each API key: its SHA-256 in hexadecimal digits, the tenant, and "
          "the word operator if it may see the console's state of the cache. Changes take effect "
          "within a second. Empty: anyone may ask");
ABSL_FLAG(std::vector<std::string>, cors_origins, {},
          "origins whose pages may ask from a browser, such as https://chat.example; * is any");
ABSL_FLAG(std::string, affinity, "session",
          "which requests go to one worker if its load allows it: none, session (one "
          "prompt_cache_key or header x-session-id), or prefix (these, and otherwise prompts that "
          "begin alike)");
ABSL_FLAG(folio::ByteSize, max_body_bytes, {32 << 20},
          "the largest body of a request, from 1KiB to 1GiB");
ABSL_FLAG(folio::ByteSize, max_header_bytes, {32 << 10},
          "the largest header of a request, from 1KiB to 1MiB");
ABSL_FLAG(absl::Duration, idle_timeout, absl::Seconds(75),
          "how long a connection may wait for its next request, from 1s to 24h");
ABSL_FLAG(absl::Duration, header_timeout, absl::Seconds(10),
          "how long a request's header may take, from 1s to 1h");
ABSL_FLAG(absl::Duration, body_timeout, absl::Seconds(60),
          "how long a request's body may take, from 1s to 1h");
ABSL_FLAG(absl::Duration, send_timeout, absl::Seconds(60),
          "how long a client may leave an answer unread before its connection is closed, from 1s "
          "to 24h");
ABSL_FLAG(absl::Duration, resume_timeout, absl::Seconds(30),
          "how long to look for another worker that continues a stream whose worker was lost, "
          "from 0 to 1h; a worker that hangs is proven gone only after the manager's --lease_ttl "
          "and --kill_fenced_after");
ABSL_FLAG(
    bool, replay, true,
    "send a request again, with the tokens that have come, when its sequence is gone too, for "
    "example with a manager without --state_dir; the gateway keeps each request for that");
ABSL_FLAG(absl::Duration, drain_timeout, absl::Seconds(30),
          "how long running requests may take to end after SIGTERM, from 0 to 24h, such as 30s");
ABSL_FLAG(bool, access_log, true,
          "write a line for each request into the log when it has its answer, at level info");

namespace folio::gateway {
namespace {

absl::Status CheckRanges() {
  constexpr absl::Duration kSecond = absl::Seconds(1), kHour = absl::Hours(1);
  for (const absl::Status& status :
       {CheckFlagRange("threads", absl::GetFlag(FLAGS_threads), 0, 64),
        CheckFlagRange("idle_timeout", absl::GetFlag(FLAGS_idle_timeout), kSecond, 24 * kHour),
        CheckFlagRange("header_timeout", absl::GetFlag(FLAGS_header_timeout), kSecond, kHour),
        CheckFlagRange("body_timeout", absl::GetFlag(FLAGS_body_timeout), kSecond, kHour),
        CheckFlagRange("send_timeout", absl::GetFlag(FLAGS_send_timeout), kSecond, 24 * kHour),
        CheckFlagRange("resume_timeout", absl::GetFlag(FLAGS_resume_timeout), absl::ZeroDuration(),
                       kHour),
        CheckFlagRange("drain_timeout", absl::GetFlag(FLAGS_drain_timeout), absl::ZeroDuration(),
                       24 * kHour)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ReadSize(absl::string_view flag, ByteSize given, uint64_t most) {
  if (given.bytes >= 1024 && given.bytes <= most) return given.bytes;
  return BadFlag(flag, FormatByteSize(given),
                 absl::StrCat("must be from 1KiB to ", FormatByteSize({most})));
}

absl::StatusOr<Affinity> ReadAffinity() {
  const std::string given = absl::GetFlag(FLAGS_affinity);
  if (given == "none") return Affinity::kNone;
  if (given == "session") return Affinity::kSession;
  if (given == "prefix") return Affinity::kPrefix;
  return BadFlag("affinity", given, "give none, session or prefix");
}

absl::Status ReadHttp(GatewayFlags* flags) {
  auto listen = ParseListenFlag("listen", absl::GetFlag(FLAGS_listen));
  if (!listen.ok()) return listen.status();
  flags->http.listen = *std::move(listen);
  auto metrics_listen = metrics::ReadMetricsListen(flags->http.listen);
  if (!metrics_listen.ok()) return metrics_listen.status();
  flags->metrics_listen = *std::move(metrics_listen);
  const auto most = ReadMaxConnections(DescriptorLimit());
  if (!most.ok()) return most.status();
  flags->http.max_connections = *most;
  const int cores = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  const int threads = absl::GetFlag(FLAGS_threads);
  flags->http.threads = threads > 0 ? threads : std::min(cores, 4);
  const auto body = ReadSize("max_body_bytes", absl::GetFlag(FLAGS_max_body_bytes), 1 << 30);
  if (!body.ok()) return body.status();
  const auto head = ReadSize("max_header_bytes", absl::GetFlag(FLAGS_max_header_bytes), 1 << 20);
  if (!head.ok()) return head.status();
  ConnectionOptions& connection = flags->http.connection;
  connection.limits = {static_cast<uint32_t>(*head), *body};
  connection.idle = absl::GetFlag(FLAGS_idle_timeout);
  connection.head = absl::GetFlag(FLAGS_header_timeout);
  connection.body = absl::GetFlag(FLAGS_body_timeout);
  connection.send = absl::GetFlag(FLAGS_send_timeout);
  auto tls = ReadTlsFlags();
  if (!tls.ok()) return tls.status();
  flags->tls = *std::move(tls);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GatewayFlags> ReadFlags() {
  GatewayFlags flags;
  if (absl::Status status = CheckRanges(); !status.ok()) return status;
  if (absl::Status status = ReadHttp(&flags); !status.ok()) return status;
  if (absl::Status status = tracing::ReadTraceFlags(&flags.traces); !status.ok()) return status;
  if (absl::Status status = ReadUpstreamFlags(&flags); !status.ok()) return status;
  const auto affinity = ReadAffinity();
  if (!affinity.ok()) return affinity.status();
  flags.api.affinity = *affinity;
  flags.api.cors_origins = absl::GetFlag(FLAGS_cors_origins);
  flags.api.resume = absl::GetFlag(FLAGS_resume_timeout);
  flags.api.replay = absl::GetFlag(FLAGS_replay);
  flags.api.access_log = absl::GetFlag(FLAGS_access_log);
  flags.api_keys = absl::GetFlag(FLAGS_api_keys);
  flags.drain_timeout = absl::GetFlag(FLAGS_drain_timeout);
  return flags;
}

}  // namespace folio::gateway
