#include "services/cli/host_checks.h"

#include <sys/timex.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/cli/format.h"

namespace folio::cli {
namespace {

constexpr uint64_t kEnoughDescriptors = 8192;
constexpr uint64_t kUnlimited = UINT64_MAX;

std::string OfProcess(uint32_t pid, const std::string& file) {
  return absl::StrCat("/proc/", pid, "/", file);
}

Check CheckDescriptors(const Host& host, uint32_t pid, const std::string& who) {
  const std::string name = absl::StrCat("descriptors of the ", who);
  const auto limit = host.SoftLimit(pid, "Max open files");
  if (!limit.has_value()) {
    return {name, Health::kOk, "not to be seen from here"};
  }
  const std::string found =
      *limit == kUnlimited ? "no limit" : absl::StrCat("at most ", FormatCount(*limit));
  if (*limit >= kEnoughDescriptors) return {name, Health::kOk, found};
  return {name, Health::kWarn, found,
          absl::StrCat("raise the hard limit of open files (LimitNOFILE, ulimit -Hn) to ",
                       FormatCount(kEnoughDescriptors), " or more for many connections")};
}

}  // namespace

std::optional<std::string> Host::Read(const std::string& path) const {
  std::ifstream file(root_ + path);
  if (!file) return std::nullopt;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

bool Host::Exists(const std::string& path) const {
  std::error_code error;
  return std::filesystem::exists(root_ + path, error);
}

bool Host::IsProcess(uint32_t pid, const std::string& name) const {
  const auto comm = pid == 0 ? std::nullopt : Read(OfProcess(pid, "comm"));
  // The kernel keeps 15 characters of a name.
  return comm.has_value() && absl::StripTrailingAsciiWhitespace(*comm) == name.substr(0, 15);
}

std::optional<uint64_t> Host::SoftLimit(uint32_t pid, const std::string& line) const {
  const auto limits = Read(OfProcess(pid, "limits"));
  if (!limits.has_value()) return std::nullopt;
  for (absl::string_view one : absl::StrSplit(*limits, '\n')) {
    if (!absl::ConsumePrefix(&one, line)) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(one, ' ', absl::SkipWhitespace());
    if (words.empty()) return std::nullopt;
    if (words[0] == "unlimited") return kUnlimited;
    uint64_t limit = 0;
    if (absl::SimpleAtoi(words[0], &limit)) return limit;
  }
  return std::nullopt;
}

std::optional<uint64_t> Host::MemoryLimit(uint32_t pid) const {
  const auto groups = Read(OfProcess(pid, "cgroup"));
  if (!groups.has_value()) return std::nullopt;
  std::optional<uint64_t> least;
  for (absl::string_view line : absl::StrSplit(*groups, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::")) continue;  // cgroup v2
    std::string group(line);
    while (true) {
      const auto text = Read(absl::StrCat("/sys/fs/cgroup", group, "/memory.max"));
      uint64_t limit = 0;
      if (text.has_value() && absl::SimpleAtoi(*text, &limit)) {
        least = std::min(least.value_or(limit), limit);
      }
      const size_t slash = group.rfind('/');
      if (group.empty() || slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return least;
}

std::string Host::Arguments(uint32_t pid) const {
  const auto arguments = Read(OfProcess(pid, "cmdline"));
  if (!arguments.has_value()) return "";
  return absl::StrReplaceAll(*arguments, {{std::string(1, '\0'), "\n"}});
}

bool ClockIsSynchronized() {
  timex state = {};
  return adjtimex(&state) != TIME_ERROR;
}

Checks CheckMachine(const Host& host, bool clock_is_synchronized, bool needs_gpu) {
  Checks checks;
  checks.push_back({"clock", clock_is_synchronized ? Health::kOk : Health::kWarn,
                    clock_is_synchronized ? "follows a time source" : "follows no time source",
                    clock_is_synchronized ? ""
                                          : "run an NTP client; the times of logs and events of "
                                            "several machines do not fit together otherwise"});
  const auto swaps = host.Read("/proc/swaps");
  const bool swap = swaps.has_value() && std::count(swaps->begin(), swaps->end(), '\n') > 1;
  checks.push_back({"swap of the machine", swap ? Health::kWarn : Health::kOk, swap ? "on" : "off",
                    swap ? "pages of the pool may go to disk, which slows decoding down; turn swap "
                           "off or set memory.swap.max to 0"
                         : ""});
  const auto huge = host.Read("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const bool never = huge.has_value() && absl::StrContains(*huge, "[never]");
  checks.push_back(
      {"huge pages of the kernel", never ? Health::kWarn : Health::kOk,
       huge.has_value() ? std::string(absl::StripTrailingAsciiWhitespace(*huge))
                        : "not to be seen from here",
       never ? "write advise to /sys/kernel/mm/transparent_hugepage/shmem_enabled" : ""});
  const bool driver = host.Exists("/proc/driver/nvidia/version");
  if (driver || needs_gpu) {
    checks.push_back({"GPU driver", driver ? Health::kOk : Health::kFail,
                      driver ? "NVIDIA's is loaded" : "NVIDIA's is not loaded here",
                      driver ? ""
                             : "the pool is in GPU memory, so load the driver, or run this on the "
                               "machine of the manager"});
  } else {
    checks.push_back({"GPU driver", Health::kOk, "none, and none is needed"});
  }
  return checks;
}

Checks CheckProcess(const Host& host, uint32_t pid, uint64_t pool_bytes) {
  if (!host.IsProcess(pid, "folio-manager")) {
    return {{"limits of the manager", Health::kOk, "not to be seen from here"}};
  }
  Checks checks = {CheckDescriptors(host, pid, "manager")};
  const auto limit = host.MemoryLimit(pid);
  if (!limit.has_value()) {
    checks.push_back({"memory limit of the manager", Health::kOk, "none"});
  } else {
    const bool fits = *limit >= pool_bytes;
    checks.push_back(
        {"memory limit of the manager", fits ? Health::kOk : Health::kFail,
         absl::StrCat(FormatBytes(*limit), ", and the pool has ", FormatBytes(pool_bytes)),
         fits ? "" : "raise the limit of the cgroup, or lower --pool_bytes"});
  }
  return checks;
}

Checks CheckWorkerProcess(const Host& host, uint32_t pid, bool locks_memory) {
  if (!host.IsProcess(pid, "folio-worker")) return {};
  Checks checks = {CheckDescriptors(host, pid, "worker")};
  if (!locks_memory) return checks;
  const auto limit = host.SoftLimit(pid, "Max locked memory");
  const bool enough = limit.value_or(kUnlimited) == kUnlimited;
  checks.push_back(
      {"locked memory of the worker", enough ? Health::kOk : Health::kWarn,
       enough ? "no limit" : absl::StrCat("at most ", FormatBytes(*limit)),
       enough ? "" : "a GPU's worker locks the swap memory; set LimitMEMLOCK=infinity"});
  return checks;
}

}  // namespace folio::cli
