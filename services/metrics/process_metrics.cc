#include "services/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/metrics/families.h"
#include "services/runtime/logging.h"
#include "services/runtime/version.h"

namespace folio::metrics {
namespace {

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The fields of /proc/self/stat that follow the program's name, which may hold blanks and
// parentheses. Field 3 of proc(5), the state, comes first.
std::vector<std::string> StatFields() {
  const std::string stat = ReadFile("/proc/self/stat");
  const size_t end = stat.rfind(')');
  if (end == std::string::npos || end + 2 > stat.size()) return {};
  return absl::StrSplit(stat.substr(end + 2), ' ');
}

std::optional<double> Field(const std::vector<std::string>& fields, size_t number) {
  double value = 0;
  if (fields.size() <= number - 3 || !absl::SimpleAtod(fields[number - 3], &value)) {
    return std::nullopt;
  }
  return value;
}

// Seconds since 1970 when the machine started.
std::optional<double> BootTime() {
  const std::string stat = ReadFile("/proc/stat");
  for (absl::string_view line : absl::StrSplit(stat, '\n')) {
    double seconds = 0;
    if (absl::ConsumePrefix(&line, "btime ") && absl::SimpleAtod(line, &seconds)) return seconds;
  }
  return std::nullopt;
}

std::optional<double> OpenDescriptors() {
  std::error_code error;
  std::filesystem::directory_iterator entries("/proc/self/fd", error);
  double count = 0;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    ++count;
  }
  // The one that reads the directory is not counted.
  return error || count == 0 ? std::nullopt : std::optional<double>(count - 1);
}

std::optional<double> MostDescriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  return static_cast<double>(limit.rlim_cur);
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessMetrics::Collect() const {
  std::vector<prometheus::MetricFamily> families;
  families.push_back(
      GaugeFamily("folio:build_info", "1, with the program, its version and its commit as labels.",
                  {{1, {{"program", program_}, {"version", Version()}, {"commit", Commit()}}}}));
  families.push_back(CounterFamily("folio:log_lines_dropped_total",
                                   "Lines of the log that were dropped, because they were not read "
                                   "in time or could not be written.",
                                   {{static_cast<double>(log::DroppedLines()), {}}}));
  const auto gauge = [&](const char* name, const char* help, std::optional<double> value) {
    if (value) families.push_back(GaugeFamily(name, help, {{*value, {}}}));
  };
  const std::vector<std::string> stat = StatFields();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const auto user = Field(stat, 14), system = Field(stat, 15), started = Field(stat, 22);
  const auto rss = Field(stat, 24);
  if (user && system) {
    families.push_back(CounterFamily("process_cpu_seconds_total",
                                     "Processor time of this process, in seconds.",
                                     {{(*user + *system) / ticks, {}}}));
  }
  const std::optional<double> boot = BootTime();
  gauge("process_start_time_seconds", "When the process started, in seconds since 1970.",
        started && boot ? std::optional<double>(*boot + *started / ticks) : std::nullopt);
  gauge("process_threads", "Threads of the process.", Field(stat, 20));
  gauge("process_virtual_memory_bytes", "Address space of the process, in bytes.", Field(stat, 23));
  gauge("process_resident_memory_bytes",
        "Memory of the process, in bytes. It includes pages of the pool that the process has "
        "touched.",
        rss ? std::optional<double>(*rss * static_cast<double>(sysconf(_SC_PAGESIZE)))
            : std::nullopt);
  gauge("process_open_fds", "Open file descriptors.", OpenDescriptors());
  gauge("process_max_fds", "The most file descriptors that the process may have open.",
        MostDescriptors());
  return families;
}

}  // namespace folio::metrics
