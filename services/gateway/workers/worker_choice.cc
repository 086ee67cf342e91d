#include "services/gateway/workers/worker_choice.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace folio::gateway {
namespace {

// FNV-1a and a final mixing, because a hash that changes with each process would move all keys.
uint64_t Hash(absl::string_view key, absl::string_view address) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const absl::string_view part : {key, absl::string_view("\n"), address}) {
    for (const char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93;
  return hash ^ (hash >> 32);
}

// Those that may be chosen.
std::vector<size_t> Usable(absl::Span<const WorkerLoad> workers) {
  for (const bool standby : {false, true}) {
    std::vector<size_t> found;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (workers[i].usable && workers[i].standby == standby) found.push_back(i);
    }
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::optional<size_t> ChooseWorker(absl::Span<const WorkerLoad> workers, absl::string_view key,
                                   uint64_t turn) {
  std::vector<size_t> usable = Usable(workers);
  if (usable.empty()) return std::nullopt;
  if (!key.empty()) {
    uint64_t running = 1;  // with this one
    for (const size_t i : usable) running += workers[i].running;
    const uint64_t most = (running * 5 / 4 + usable.size() - 1) / usable.size() + 1;
    std::sort(usable.begin(), usable.end(), [&](size_t a, size_t b) {
      return Hash(key, workers[a].address) > Hash(key, workers[b].address);
    });
    for (const size_t i : usable) {
      if (workers[i].running < most) return i;
    }
  }
  std::rotate(usable.begin(), usable.begin() + static_cast<ptrdiff_t>(turn % usable.size()),
              usable.end());
  return *std::min_element(usable.begin(), usable.end(), [&](size_t a, size_t b) {
    return workers[a].running < workers[b].running;
  });
}

}  // namespace folio::gateway
