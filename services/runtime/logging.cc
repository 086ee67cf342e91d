#include "services/runtime/logging.h"

#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "services/base/check.h"
#include "services/runtime/log_queue.h"

namespace folio::log {
namespace {

constexpr size_t kQueueBytes = size_t{1} << 20;

constexpr absl::string_view kNames[] = {"debug", "info", "warning", "error"};

struct State {
  std::atomic<Format> format{Format::kText};
  std::shared_ptr<spdlog::logger> logger =
      std::make_shared<spdlog::logger>("folio", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  std::atomic<LogQueue*> queue = nullptr;  // null while callers write themselves; never destroyed
  State() { logger->set_pattern("%v"); }
};

// Never destroyed: threads may log while the process ends.
State& TheState() {
  static State* const state = new State();
  return *state;
}

spdlog::level::level_enum SpdlogLevel(Level level) {
  switch (level) {
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarning:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
  }
  return spdlog::level::off;
}

std::string DroppedLine(uint64_t lines) {
  return FormatLine(TheState().format, Level::kWarning, absl::Now(),
                    "lines of this log were dropped, because they were not read in time",
                    {{"lines", lines}});
}

// Gives the writer a second. abort() has called this and ends the process afterwards. Only
// functions that are safe in signal handlers may be called.
void WaitForWriter(int /*signal*/) {
  const LogQueue* queue = TheState().queue;
  constexpr timespec kPause = {0, 10'000'000};
  for (int i = 0; i < 100 && !queue->idle(); ++i) nanosleep(&kPause, nullptr);
}

// A JSON string, in which bytes that are not UTF-8 become U+FFFD.
std::string Quoted(absl::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '=' || c == 0x7f) return true;
  }
  return false;
}

}  // namespace

std::string FormatLine(Format format, Level level, absl::Time time, absl::string_view message,
                       Fields fields) {
  const std::string when = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
  const absl::string_view name = kNames[static_cast<int>(level)];
  if (format == Format::kJson) {
    std::string line = absl::StrCat(R"({"time":")", when, R"(","level":")", name, R"(","message":)",
                                    Quoted(message));
    for (const Field& field : fields) {
      absl::StrAppend(&line, ",", Quoted(field.key), ":",
                      field.bare ? field.value : Quoted(field.value));
    }
    return line + "}";
  }
  std::string line = absl::StrCat(when, " ", absl::AsciiStrToUpper(name), " ", message);
  for (const Field& field : fields) {
    const bool quote = !field.bare && NeedsQuotes(field.value);
    absl::StrAppend(&line, " ", field.key, "=", quote ? Quoted(field.value) : field.value);
  }
  return line;
}

void Configure(Format format, Level level) {
  TheState().format = format;
  TheState().logger->set_level(SpdlogLevel(level));
}

void WriteInBackground() {
  FOLIO_CHECK(TheState().queue == nullptr);
  TheState().queue = new LogQueue(STDERR_FILENO, kQueueBytes, DroppedLine);
  FOLIO_CHECK(std::atexit([] { Flush(); }) == 0);
  struct sigaction action = {};
  action.sa_handler = WaitForWriter;
  FOLIO_CHECK(sigaction(SIGABRT, &action, nullptr) == 0);
}

bool Flush(absl::Duration timeout) {
  LogQueue* const queue = TheState().queue;
  return queue == nullptr || queue->Flush(timeout);
}

uint64_t DroppedLines() {
  const LogQueue* const queue = TheState().queue;
  return queue == nullptr ? 0 : queue->dropped();
}

bool Enabled(Level level) { return TheState().logger->should_log(SpdlogLevel(level)); }

void Write(Level level, absl::string_view message, Fields fields) {
  if (!Enabled(level)) return;
  std::string line = FormatLine(TheState().format, level, absl::Now(), message, fields);
  if (LogQueue* const queue = TheState().queue) {
    queue->Push(std::move(line));
    return;
  }
  TheState().logger->log(SpdlogLevel(level), spdlog::string_view_t(line.data(), line.size()));
}

}  // namespace folio::log
