#include "services/manager/journal/state_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace folio::manager {
namespace {

constexpr absl::string_view kPrefix = "journal-";

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDirectory>> StateDirectory::Open(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("--state_dir=", path, ": cannot make it"));
  }
  const std::string name = absl::StrCat(path, "/lock");
  UniqueFd lock(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return absl::ErrnoToStatus(errno, absl::StrCat("--state_dir=", path, ": cannot open ", name));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, absl::StrCat("flock ", name));
    return absl::FailedPreconditionError(
        absl::StrCat("--state_dir=", path, " belongs to the manager of process ",
                     absl::StripSuffix(Contents(name), "\n"),
                     ", which runs; end that one first, or give this one another folder"));
  }
  const std::string own = absl::StrCat(getpid(), "\n");
  const bool noted = ftruncate(lock.get(), 0) == 0 && pwrite(lock.get(), own.data(), own.size(),
                                                             0) == static_cast<ssize_t>(own.size());
  (void)noted;  // it is for people
  return std::unique_ptr<StateDirectory>(new StateDirectory(path, std::move(lock)));
}

std::string StateDirectory::FileOf(uint64_t number) const {
  return absl::StrCat(path_, "/", kPrefix, number);
}

std::vector<uint64_t> StateDirectory::Files() const {
  std::vector<uint64_t> numbers;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(path_, failed)) {
    const std::string name = entry.path().filename().string();
    absl::string_view digits = name;
    uint64_t number = 0;
    if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::SimpleAtoi(digits, &number)) continue;
    numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

uint64_t StateDirectory::SizeOf(uint64_t number) const {
  std::error_code failed;
  const auto size = std::filesystem::file_size(FileOf(number), failed);
  return failed ? 0 : size;
}

absl::StatusOr<std::string> StateDirectory::Read(uint64_t number) const {
  const std::string name = FileOf(number);
  std::ifstream file(name, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || file.bad()) {
    return absl::UnavailableError(absl::StrCat("cannot read ", name));
  }
  return bytes;
}

absl::StatusOr<UniqueFd> StateDirectory::Create(uint64_t number) const {
  const std::string name = FileOf(number);
  UniqueFd file(open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot make ", name));
  return file;
}

void StateDirectory::Remove(uint64_t number) const { (void)unlink(FileOf(number).c_str()); }

}  // namespace folio::manager
