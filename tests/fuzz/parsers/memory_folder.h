// MemoryFolder is a folder in memory for parsers that read several files. It is removed with all
// that is in it.
#ifndef FOLIO_TESTS_FUZZ_PARSERS_MEMORY_FOLDER_H_
#define FOLIO_TESTS_FUZZ_PARSERS_MEMORY_FOLDER_H_

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::fuzz {

class MemoryFolder {
 public:
  // Ends the program if there is no memory.
  MemoryFolder() : path_("/dev/shm/folio-fuzz-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~MemoryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string FileOf(const char* name) const { return path_ + "/" + name; }

  // In place of a file of this name that was there before.
  void Write(const char* name, absl::string_view bytes) const {
    const int fd = open(FileOf(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
      std::abort();
    }
    close(fd);
  }
  void Remove(const char* name) const { unlink(FileOf(name).c_str()); }

 private:
  std::string path_;
};

}  // namespace folio::fuzz

#endif  // FOLIO_TESTS_FUZZ_PARSERS_MEMORY_FOLDER_H_
