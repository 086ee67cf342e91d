// Host is the machine as `folioctl doctor` sees it, through files of the kernel. They are read
// below a root directory, so that tests have a machine of their own.
#ifndef FOLIO_SERVICES_CLI_HOST_CHECKS_H_
#define FOLIO_SERVICES_CLI_HOST_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "services/cli/checks.h"

namespace folio::cli {

// Immutable.
class Host {
 public:
  // "" is this machine.
  explicit Host(std::string root = "") : root_(std::move(root)) {}

  // The whole file, or nothing if it cannot be read.
  std::optional<std::string> Read(const std::string& path) const;
  bool Exists(const std::string& path) const;

  // A process of the name, if the pid is known and its files may be read. "nofile" and the like are
  // the names of a line in /proc/PID/limits.
  bool IsProcess(uint32_t pid, const std::string& name) const;
  std::optional<uint64_t> SoftLimit(uint32_t pid, const std::string& line) const;
  // The lowest memory.max of the process's cgroups, if one has a limit.
  std::optional<uint64_t> MemoryLimit(uint32_t pid) const;
  // The arguments of a process, one a line.
  std::string Arguments(uint32_t pid) const;

 private:
  const std::string root_;
};

// Facts of the machine itself: memory that may be handed out, swap, clock, GPU driver.
Checks CheckMachine(const Host& host, bool clock_is_synchronized, bool needs_gpu);
// Limits of the manager's process. `pool_bytes` is 0 without a pool in host memory.
Checks CheckProcess(const Host& host, uint32_t pid, uint64_t pool_bytes);
// Limits of a worker's process. A GPU's worker locks the swap memory.
Checks CheckWorkerProcess(const Host& host, uint32_t pid, bool locks_memory);

// The kernel says that the clock follows a time source.
bool ClockIsSynchronized();

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_HOST_CHECKS_H_
