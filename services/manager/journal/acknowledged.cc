#include "services/manager/journal/acknowledged.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "services/manager/journal/frames.h"

namespace folio::manager {
namespace {

// All have one size, so each covers the one before.
std::string Line(const Acknowledged::Mark& mark) {
  const std::string numbers = absl::StrFormat("journal-%020d %020d", mark.number, mark.bytes);
  return absl::StrFormat("%s %08x\n", numbers, ChecksumOf(numbers));
}

}  // namespace

absl::Status Acknowledged::Store(const Mark& mark) {
  if (!file_.valid()) {
    file_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!file_.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", path_));
  }
  const std::string line = Line(mark);
  ssize_t wrote = -1;
  do {
    wrote = pwrite(file_.get(), line.data(), line.size(), 0);
  } while (wrote < 0 && errno == EINTR);
  if (wrote == static_cast<ssize_t>(line.size())) return absl::OkStatus();
  const int error = wrote < 0 ? errno : ENOSPC;
  file_.Reset();  // somebody may have removed the file
  return absl::ErrnoToStatus(error, absl::StrCat("cannot write ", path_));
}

absl::StatusOr<std::optional<Acknowledged::Mark>> Acknowledged::Read() const {
  if (access(path_.c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
  std::ifstream file(path_, std::ios::binary);
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (line.empty()) return std::nullopt;  // a death came before the first line
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar("- "));
  Mark mark;
  if (words.size() == 4 && absl::SimpleAtoi(words[1], &mark.number) &&
      absl::SimpleAtoi(words[2], &mark.bytes) && line == Line(mark)) {
    return mark;
  }
  return absl::DataLossError(absl::StrCat(path_, " is damaged"));
}

}  // namespace folio::manager
