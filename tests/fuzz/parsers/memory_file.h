// MemoryFile is a file in memory that has the bytes of a fuzzer's input, for parsers that map
// files. One thread uses it.
#ifndef FOLIO_TESTS_FUZZ_PARSERS_MEMORY_FILE_H_
#define FOLIO_TESTS_FUZZ_PARSERS_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace folio::fuzz {

class MemoryFile {
 public:
  // Ends the program if there is no memory.
  MemoryFile(const uint8_t* data, size_t size) : fd_(memfd_create("input", MFD_CLOEXEC)) {
    if (fd_ < 0 || write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  const int fd_;
};

}  // namespace folio::fuzz

#endif  // FOLIO_TESTS_FUZZ_PARSERS_MEMORY_FILE_H_
