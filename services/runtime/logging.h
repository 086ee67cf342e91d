// This header writes structured logs to stderr. A line is a message and key=value fields.
//
//   log::Info("worker attached", {{"worker", "w1"}, {"pid", 1234}});
//
// --log_format=text
//   2026-01-02T03:04:05.678Z INFO worker attached worker=w1 pid=1234
// --log_format=json
//   {"time":"2026-01-02T03:04:05.678Z","level":"info","message":"worker attached",...}
//
// Any thread may log, also before Configure (then as text, from level info). Messages are constant
// and everything that varies is a field, so that logs can be searched. The flags --log_format and
// --log_level are linked in by ConfigureFromFlags. A caller waits until its line is written, unless
// the program has called WriteInBackground.
#ifndef FOLIO_SERVICES_RUNTIME_LOGGING_H_
#define FOLIO_SERVICES_RUNTIME_LOGGING_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/ids.h"

namespace folio::log {

enum class Level { kDebug, kInfo, kWarning, kError };
enum class Format { kText, kJson };

// A field keeps its type in JSON, where numbers and booleans are not quoted.
struct Field {
  Field(absl::string_view k, absl::string_view v) : key(k), value(v) {}
  Field(absl::string_view k, const char* v) : key(k), value(v) {}
  Field(absl::string_view k, const std::string& v) : key(k), value(v) {}
  Field(absl::string_view k, bool v) : key(k), value(v ? "true" : "false"), bare(true) {}
  Field(absl::string_view k, absl::Duration v) : key(k), value(absl::FormatDuration(v)) {}
  Field(absl::string_view k, const absl::Status& v) : key(k), value(v.ToString()) {}
  template <typename T>
    requires std::is_arithmetic_v<T>
  Field(absl::string_view k, T v) : key(k), value(absl::StrCat(v)), bare(std::is_integral_v<T>) {}
  template <typename Tag, typename Rep>
  Field(absl::string_view k, StrongInt<Tag, Rep> v) : Field(k, v.value()) {}

  absl::string_view key;
  std::string value;
  bool bare = false;
};
using Fields = std::initializer_list<Field>;

// Once, early in main.
void Configure(Format format, Level level);
// Configures the log from the flags. INVALID_ARGUMENT names the flag.
absl::Status ConfigureFromFlags();

// From now on a thread writes the lines, so that no thread of a daemon waits for the reader of its
// log. Lines that do not fit into 1 MiB are dropped and counted. The end of the process and an
// abort() wait up to a second for the rest. Once, after TerminationSignals was made.
void WriteInBackground();
// Waits until all lines are written. False if `timeout` passes first. Needed before _Exit alone.
bool Flush(absl::Duration timeout = absl::Seconds(1));
// Lines that were dropped since the process started.
uint64_t DroppedLines();

bool Enabled(Level level);
void Write(Level level, absl::string_view message, Fields fields = {});

inline void Debug(absl::string_view message, Fields fields = {}) {
  if (Enabled(Level::kDebug)) Write(Level::kDebug, message, fields);
}
inline void Info(absl::string_view message, Fields fields = {}) {
  Write(Level::kInfo, message, fields);
}
inline void Warning(absl::string_view message, Fields fields = {}) {
  Write(Level::kWarning, message, fields);
}
inline void Error(absl::string_view message, Fields fields = {}) {
  Write(Level::kError, message, fields);
}

// The line Write would print, without its end; for tests.
std::string FormatLine(Format format, Level level, absl::Time time, absl::string_view message,
                       Fields fields);

}  // namespace folio::log

#endif  // FOLIO_SERVICES_RUNTIME_LOGGING_H_
