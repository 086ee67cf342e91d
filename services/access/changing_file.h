// ChangingFile is a small text file that an administrator may replace while a daemon runs.
#ifndef FOLIO_SERVICES_ACCESS_CHANGING_FILE_H_
#define FOLIO_SERVICES_ACCESS_CHANGING_FILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/base/steady_time.h"

namespace folio::access {

// Not thread-safe.
class ChangingFile {
 public:
  // How often it looks whether the file has changed, at most.
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  // A larger file is refused.
  static constexpr size_t kMaxBytes = size_t{16} << 20;

  explicit ChangingFile(std::string path) : path_(std::move(path)) {}

  // The contents. NOT_FOUND: there is no such file that can be read. INVALID_ARGUMENT: it has more
  // than kMaxBytes. Both name the file.
  absl::StatusOr<std::string> Read();
  // Nothing if the file has not changed since the last Read, or if the last look is not kInterval
  // ago. Otherwise as Read. A file that is gone is told once.
  std::optional<absl::StatusOr<std::string>> ReadIfChanged();

  const std::string& path() const { return path_; }

 private:
  // Changes with the file. Empty if there is none.
  std::string Stamp() const;

  const std::string path_;
  std::string stamp_;  // of what was read last
  SteadyTime looked_ = SteadyTime::InfinitePast();
};

}  // namespace folio::access

#endif  // FOLIO_SERVICES_ACCESS_CHANGING_FILE_H_
