#include "services/cli/checks.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/cli/format.h"
#include "services/cli/sequence_text.h"

namespace folio::cli {
namespace {

// Why a Unix socket cannot be reached, or nothing if its file looks well.
std::string SocketTrouble(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) {
    return errno == EACCES ? absl::StrCat("you may not look into the directory of ", path)
                           : absl::StrCat("there is no ", path);
  }
  if (!S_ISSOCK(file.st_mode)) return absl::StrCat(path, " is not a socket");
  return "";
}

std::string AdviceFor(const std::string& process, const std::string& address,
                      const absl::Status& status) {
  absl::string_view path = address;
  if (absl::ConsumePrefix(&path, "unix:")) {
    const std::string trouble = SocketTrouble(std::string(path));
    if (!trouble.empty()) {
      return absl::StrCat(trouble, "; start folio-", process,
                          ", or name its --listen with --address or a context");
    }
  }
  if (absl::IsUnimplemented(status)) return std::string(status.message());
  return absl::StrCat("see that folio-", process,
                      " runs (systemctl status, or its log), and that you may use its socket "
                      "(group folio)");
}

std::string Milliseconds(uint32_t time) { return FormatSeconds(time / 1e3); }

Check CheckRoom(const folio::v1::Pool& pool) {
  const std::string name = absl::StrCat("room in pool ", PoolTitle(pool));
  const std::string found = absl::StrCat(FormatCount(pool.free_pages()), " of ",
                                         FormatCount(pool.total_pages()), " pages are free");
  if (uint64_t{pool.free_pages()} * 20 >= pool.total_pages()) return {name, Health::kOk, found};
  return {name, Health::kWarn, found,
          "sequences may be parked or wait; give --pool_bytes more, requests a budget, or close "
          "what takes most (folioctl top)"};
}

}  // namespace

const char* HealthName(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarn:
      return "warn";
    case Health::kFail:
      return "fail";
  }
  return "fail";
}

Check CheckConnection(const std::string& process, const std::string& address,
                      const absl::Status& status) {
  if (status.ok()) return {process, Health::kOk, absl::StrCat("serves at ", address)};
  return {process, Health::kFail, absl::StrCat(address, ": ", status.message()),
          AdviceFor(process, address, status)};
}

Check CheckVersions(const std::string& own, const std::string& manager) {
  const auto version = [](const std::string& build) { return build.substr(0, build.find(' ')); };
  const std::string found = absl::StrCat("folioctl ", own, ", manager ", manager);
  if (version(own) == version(manager)) return {"versions", Health::kOk, found};
  return {"versions", Health::kWarn, found,
          "install the same version of both, because an older one lacks calls of the newer one"};
}

Checks CheckPools(const folio::v1::ListPoolsResponse& pools) {
  Checks checks;
  if (pools.pools().empty()) {
    return {{"pool", Health::kWarn, "no worker has attached, so there is no pool",
             "start folio-worker with a model"}};
  }
  for (const auto& pool : pools.pools()) {
    checks.push_back(CheckRoom(pool));
    const std::string id = absl::StrCat(" of pool ", PoolTitle(pool));
    if (pool.quarantined_pages() > 0) {
      checks.push_back({absl::StrCat("quarantine", id), Health::kWarn,
                        absl::StrCat(FormatCount(pool.quarantined_pages()), " pages"),
                        "folioctl quarantine names the lost workers; end their processes"});
    } else {
      checks.push_back({absl::StrCat("quarantine", id), Health::kOk, "no pages"});
    }
    const bool host = pool.rank_memory().empty() || pool.rank_memory(0).device() == "cpu";
    if (host && !pool.huge_pages()) {
      checks.push_back({absl::StrCat("huge pages", id), Health::kWarn, "not used",
                        "write advise to /sys/kernel/mm/transparent_hugepage/shmem_enabled, or "
                        "reserve huge pages; decoding is faster then"});
    } else {
      checks.push_back({absl::StrCat("huge pages", id), Health::kOk,
                        host ? "allowed" : "not needed, the pages are in GPU memory"});
    }
    if (pool.total_swap_slots() == 0) continue;
    const uint64_t free = pool.total_swap_slots() - pool.used_swap_slots();
    const bool scarce = free * 20 < pool.total_swap_slots();
    checks.push_back(
        {absl::StrCat("swap memory", id), scarce ? Health::kWarn : Health::kOk,
         absl::StrCat(FormatCount(free), " of ", FormatCount(pool.total_swap_slots()),
                      " slots are free"),
         scarce ? "parked sequences are computed again; give --host_swap_bytes more" : ""});
  }
  return checks;
}

Checks CheckWorkers(const folio::v1::ListWorkersResponse& workers) {
  Checks checks;
  for (const auto& worker : workers.workers()) {
    const std::string name = absl::StrCat("worker ", worker.worker_id());
    if (worker.has_fence()) {
      checks.push_back(
          {name, worker.fence().blocked_pages() > 0 ? Health::kFail : Health::kWarn,
           absl::StrCat("fenced: ", worker.fence().reason(), ", blocks ",
                        FormatCount(worker.fence().blocked_pages()), " pages"),
           "end its processes; if they have ended where the manager cannot see it, folioctl "
           "quarantine release gives the pages back"});
      continue;
    }
    const uint32_t ttl = workers.lease_ttl_ms();
    const std::string lease = absl::StrCat(
        "its lease ends in ", Milliseconds(worker.lease_remaining_ms()), " of ", Milliseconds(ttl));
    if (worker.step_in_flight_ms() > ttl) {
      checks.push_back(
          {name, Health::kFail,
           absl::StrCat("one step has run for ", Milliseconds(worker.step_in_flight_ms())),
           "it hangs; look at its log and its device, and restart it"});
    } else if (uint64_t{worker.lease_remaining_ms()} * 4 < ttl) {
      checks.push_back({name, Health::kWarn, lease,
                        "it is busy, stopped or unreachable; see its load and its log"});
    } else if (worker.draining()) {
      checks.push_back({name, Health::kWarn, "an operator drains it",
                        "folioctl drain --undo, when it is to get sequences again"});
    } else {
      checks.push_back({name, Health::kOk, lease});
    }
  }
  return checks;
}

Checks CheckWaiting(const folio::v1::GetManagerResponse& manager,
                    const folio::v1::ListTenantsResponse& tenants) {
  Checks checks;
  if (manager.draining()) {
    checks.push_back({"drain", Health::kWarn, "the manager takes no new sequences",
                      "folioctl drain --undo, when it is to take some again"});
  } else {
    checks.push_back({"drain", Health::kOk, "new sequences are taken"});
  }
  uint32_t waiting = 0;
  uint32_t parked = 0;
  for (const auto& tenant : tenants.tenants()) {
    waiting += tenant.waiting();
    parked += tenant.parked();
  }
  const bool waits = waiting + parked > 0;
  checks.push_back({"line", waits ? Health::kWarn : Health::kOk,
                    absl::StrCat(waiting, " workers wait for pages with their first request, and ",
                                 parked, " sequences are parked"),
                    waits ? "the pool is full; see folioctl top and folioctl tenants" : ""});
  return checks;
}

}  // namespace folio::cli
