#include "services/runtime/connection_flag.h"

#include <algorithm>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "services/runtime/flags.h"

ABSL_FLAG(
    int, max_connections, 0,
    "connections of clients that may be open at a time, and a further one takes the place of one "
    "that has been silent for two minutes, or is closed at once; 0 is 8192, or fewer if the limit "
    "of file descriptors is low");

namespace folio {
namespace {

constexpr int kMostReserved = 512;

}  // namespace

absl::StatusOr<int> ReadMaxConnections(int descriptors) {
  const int reserved = std::min(kMostReserved, descriptors / 2);
  const int most = descriptors - reserved;
  const int given = absl::GetFlag(FLAGS_max_connections);
  if (given == 0) return std::min(kDefaultMaxConnections, most);
  if (given < 0) {
    return BadFlag("max_connections", absl::StrCat(given), "must be 0 or more connections");
  }
  if (given <= most) return given;
  return BadFlag("max_connections", absl::StrCat(given),
                 absl::StrCat("must be at most ", most, ", because the process may have ",
                              descriptors, " file descriptors and keeps ", reserved,
                              " for its own work; lower it or raise the hard limit (ulimit -Hn, or "
                              "LimitNOFILE= of the unit)"));
}

}  // namespace folio
