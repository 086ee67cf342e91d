#include "services/access/changing_file.h"

#include <sys/stat.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "services/base/invalid_argument.h"

namespace folio::access {

// The time of the last change of the inode is in it, because a copy may keep the other one.
std::string ChangingFile::Stamp() const {
  struct stat file = {};
  if (stat(path_.c_str(), &file) != 0) return "";
  return absl::StrCat(file.st_ino, " ", file.st_size, " ", file.st_mtim.tv_sec, " ",
                      file.st_mtim.tv_nsec, " ", file.st_ctim.tv_sec, " ", file.st_ctim.tv_nsec);
}

absl::StatusOr<std::string> ChangingFile::Read() {
  looked_ = SteadyNow();
  stamp_ = Stamp();
  std::ifstream file(path_, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (!stamp_.empty() && file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  // The end of the file fails the read, and a directory breaks it.
  if (stamp_.empty() || !file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat(path_, ": there is no such file that can be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kMaxBytes) return text;
  return InvalidArgument(path_, ": is longer than ", kMaxBytes, " bytes");
}

std::optional<absl::StatusOr<std::string>> ChangingFile::ReadIfChanged() {
  const SteadyTime now = SteadyNow();
  if (now - looked_ < kInterval) return std::nullopt;
  looked_ = now;
  if (Stamp() == stamp_) return std::nullopt;
  return Read();
}

}  // namespace folio::access
