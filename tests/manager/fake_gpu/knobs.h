// Tests steer the stand-ins for NVIDIA's libraries by these environment variables, since another
// process loads the stand-ins. Each stand-in appends the name of each called function to
// FAKE_GPU_LOG.
//
//   FAKE_GPU_COUNT    devices; 2 when unset
//   FAKE_GPU_BYTES    of memory on each, all of it free at first; 8 GiB when unset
//   FAKE_GPU_FAIL     "cuMemCreate=2,cuInit=999": functions that return these codes
//   FAKE_GPU_LACKS    "vmm" or "posix_fd": what the devices do not support
//   FAKE_GPU_HANG     a file: while it exists, an emulated device does no work, and waits for it
//   hang FAKE_GPU_MIG      "instance": device 0 is an instance; "empty": a GPU is in MIG mode and
//   has none
#ifndef FOLIO_TESTS_MANAGER_FAKE_GPU_KNOBS_H_
#define FOLIO_TESTS_MANAGER_FAKE_GPU_KNOBS_H_

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace folio::testing::fake_gpu {

inline std::string Knob(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

inline int Count() { return std::stoi(Knob("FAKE_GPU_COUNT", "2")); }
inline size_t Bytes() { return std::stoull(Knob("FAKE_GPU_BYTES", "8589934592")); }

// The bytes of device 0 are 0x00, 0x01, ... 0x0f. Each further device adds 16 to the last byte.
inline char UuidByte(int device, int at) {
  return static_cast<char>(at == 15 ? 15 + 16 * device : at);
}

// Notes the call. Returns the code with which it is to fail, or 0 if it is to work.
inline int Called(const char* function) {
  std::string line = function;
  line += '\n';
  const int log =
      open(Knob("FAKE_GPU_LOG", "/dev/null").c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (log < 0 || write(log, line.data(), line.size()) != static_cast<ssize_t>(line.size())) abort();
  close(log);
  // In commas, so that each name is whole.
  std::string fail = ",";
  fail += Knob("FAKE_GPU_FAIL");
  std::string wanted = ",";
  wanted += function;
  wanted += '=';
  const size_t at = fail.find(wanted);
  return at == std::string::npos ? 0 : std::stoi(fail.substr(at + wanted.size()));
}

}  // namespace folio::testing::fake_gpu

#endif  // FOLIO_TESTS_MANAGER_FAKE_GPU_KNOBS_H_
