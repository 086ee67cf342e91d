#include "services/cli/archive.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/base/check.h"

namespace folio::cli {
namespace {

constexpr size_t kBlock = 512;

void Put(std::string* header, size_t at, absl::string_view text) {
  std::copy(text.begin(), text.end(), header->begin() + static_cast<ptrdiff_t>(at));
}

// Offsets and widths are those of POSIX. The checksum counts its own field as spaces.
std::string Header(const ArchiveFile& file) {
  FOLIO_CHECK(file.name.size() <= 100);
  std::string header(kBlock, '\0');
  Put(&header, 0, file.name);
  Put(&header, 100, "0000644");
  Put(&header, 108, "0000000");
  Put(&header, 116, "0000000");
  Put(&header, 124, absl::StrFormat("%011o", file.contents.size()));
  Put(&header, 136, absl::StrFormat("%011o", static_cast<uint64_t>(std::time(nullptr))));
  Put(&header, 148, std::string(8, ' '));
  Put(&header, 156, "0");
  Put(&header, 257, absl::string_view("ustar\00000", 8));
  uint32_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  Put(&header, 148, absl::StrCat(absl::StrFormat("%06o", sum), absl::string_view("\0 ", 2)));
  return header;
}

std::string Tar(const std::vector<ArchiveFile>& files) {
  std::string tar;
  for (const ArchiveFile& file : files) {
    const size_t rest = file.contents.size() % kBlock;
    absl::StrAppend(&tar, Header(file), file.contents,
                    std::string(rest == 0 ? 0 : kBlock - rest, '\0'));
  }
  return tar + std::string(2 * kBlock, '\0');
}

}  // namespace

absl::Status WriteArchive(const std::string& path, const std::vector<ArchiveFile>& files) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) {
    return absl::UnknownError(absl::StrCat(path, " cannot be written: ", std::strerror(errno)));
  }
  gzFile archive = gzdopen(file, "wb");
  FOLIO_CHECK(archive != nullptr);
  const std::string tar = Tar(files);
  const bool written = gzwrite(archive, tar.data(), static_cast<unsigned>(tar.size())) ==
                       static_cast<int>(tar.size());
  if (gzclose(archive) == Z_OK && written) return absl::OkStatus();
  unlink(path.c_str());
  return absl::UnknownError(absl::StrCat(path, " cannot be written whole"));
}

}  // namespace folio::cli
