#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/stubs/logging.h"
#include "services/cache/inspector.h"
#include "services/manager/journal/acknowledged.h"
#include "services/manager/journal/frames.h"
#include "services/manager/manager_journal.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/recovery.h"
#include "services/manager/session_translator.h"
#include "services/manager/worker_registry.h"
#include "services/runtime/logging.h"
#include "services/wire/session.h"
#include "tests/fuzz/parsers/memory_folder.h"
#include "tests/fuzz/parsers/records.h"
#include "tests/fuzz/parsers/session_requests.h"

namespace folio::fuzz {
namespace {

using manager::Recovered;
using manager::StateDirectory;

enum Kind : uint8_t {
  kEntry = 0,   // a JournalEntry, which gets its length and its checksums
  kHeader = 1,  // the same, at the beginning of the next file
  kBytes = 2,   // as they are
  kDamage = 3,  // changes a byte before it
  kSteps = 4,   // bytes decide what a worker does after the recovery
  kNextFile = 5,
  kMark = 6,  // two numbers: the file and the bytes that were acknowledged
  kKinds = 7,
};
constexpr uint8_t kMessageKinds = 2;

// A pool of more pages takes longer than the rest of a run.
constexpr uint32_t kMostPages = 4096;
constexpr char kBoot[] = "this boot";

[[noreturn]] void Fail(absl::string_view why) {
  std::cerr << why << std::endl;
  std::abort();
}

class SteppedClock final : public Clock {
 public:
  SteadyTime Now() const override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  SteadyTime now_{absl::Hours(1)};
};

// The files that the records make, and the bytes of the steps.
struct Files {
  explicit Files(const std::vector<Record>& records) {
    for (const Record& record : records) Add(record);
  }
  void Add(const Record& record) {
    std::string& file = all.back();
    switch (record.kind % kKinds) {
      case kHeader:
        all.emplace_back();
        [[fallthrough]];
      case kEntry:
        return manager::AppendFrame(record.bytes, &all.back());
      case kBytes:
        file += record.bytes;
        return;
      case kDamage:
        if (record.bytes.size() < 2 || file.empty()) return;
        file[file.size() - 1 - static_cast<uint8_t>(record.bytes[0]) % file.size()] ^=
            record.bytes[1];
        return;
      case kSteps:
        steps += record.bytes;
        return;
      case kMark: {
        ByteSource numbers(record.bytes);
        mark.number = numbers.Below(static_cast<uint32_t>(all.size()) + 2);
        mark.bytes = numbers.Below(1 << 16);
        return;
      }
      default:
        all.emplace_back();
    }
  }
  std::vector<std::string> all = {""};
  std::string steps;
  manager::Acknowledged::Mark mark;
};

std::unique_ptr<StateDirectory> Open(const MemoryFolder& folder) {
  auto directory = StateDirectory::Open(folder.path());
  if (!directory.ok()) Fail(directory.status().ToString());
  return *std::move(directory);
}

void CheckWhole(const cache::Coordinator& coordinator) {
  const absl::Status whole = cache::Inspector(coordinator).CheckInvariants();
  if (!whole.ok()) Fail(whole.ToString());
}

// A worker of the next manager claims sequences and continues them.
void Continue(const manager::Pool& pool, absl::string_view steps) {
  cache::Coordinator& coordinator = pool.coordinator();
  const WorkerId worker = coordinator.AddWorker("next");
  manager::SessionTranslator session(
      coordinator, worker,
      manager::CacheRules{pool.geometry().page_tokens, pool.geometry().num_layers, {}});
  const SessionRequests requests(coordinator, pool.geometry());
  ByteSource bytes(steps);
  for (uint64_t step = 1; step < 64 && !bytes.empty(); ++step) {
    const auto request = requests.Next(worker, step, bytes);
    if (!session.Translate(wire::FromProto(request)).ok()) Fail("the session ended");
    CheckWhole(coordinator);
  }
  coordinator.FenceWorker(worker, /*quiesced=*/true);
  coordinator.ConfirmExited(worker);
  CheckWhole(coordinator);
}

// As folio-manager begins.
void Begin(const MemoryFolder& folder, Recovered recovered, absl::string_view steps) {
  const bool whole = recovered.damage.empty();
  const manager::HostMemory pages;
  SteppedClock clock;
  {
    manager::ManagerJournal journal(Open(folder), recovered);
    manager::RegistryOptions options;
    options.pages = &pages;
    options.pool_size = {.bytes = 1 << 20};
    options.rules.orphan_ttl = absl::Seconds(30);
    options.rules.admission = cache::Admission::kOptimistic;
    options.clock = &clock;
    options.journal = &journal;
    options.recovered = &recovered;
    manager::WorkerRegistry registry(options);
    journal.EndFile();
    const auto pool = registry.pool();
    if (pool != nullptr) {
      CheckWhole(pool->coordinator());
      (void)cache::Restoration(pool->coordinator()).Decide();
      CheckWhole(pool->coordinator());
      registry.ExpireLeases();
      // The workers of the manager before do not come.
      clock.Advance(absl::Seconds(11));
      registry.ExpireLeases();
      CheckWhole(pool->coordinator());
      Continue(*pool, steps);
    }
    journal.files().Flush();
  }
  // What this manager wrote is read by the next one.
  const auto again = manager::Recover(*Open(folder));
  if (!again.ok()) Fail(again.status().ToString());
  if (whole && !again->damage.empty()) Fail(absl::StrCat("the next manager: ", again->damage[0]));
}

}  // namespace
}  // namespace folio::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  return folio::fuzz::MutateRecords(data, size, most, seed, folio::state::v1::JournalEntry(),
                                    folio::fuzz::kMessageKinds);
}

// Files of a journal, made of records, and the manager that begins with them. It refuses or
// recovers, its accounting of pages is whole, and so is the journal that it writes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace folio::fuzz;  // NOLINT
  static const bool quiet = [] {
    folio::log::Configure(folio::log::Format::kText, folio::log::Level::kError);
    google::protobuf::SetLogHandler(nullptr);
    return true;
  }();
  (void)quiet;
  const Files files(ReadRecords({reinterpret_cast<const char*>(data), size}));
  const MemoryFolder folder;
  {
    const auto directory = Open(folder);
    for (size_t i = 0; i < files.all.size(); ++i) {
      if (i == 0 && files.all[i].empty()) continue;
      const std::string path = directory->FileOf(i + 1);
      folder.Write(path.substr(folder.path().size() + 1).c_str(), files.all[i]);
    }
    if (files.mark.number > 0) {
      (void)folio::manager::Acknowledged(folder.path()).Store(files.mark);
    }
  }
  auto recovered = folio::manager::Recover(*Open(folder), kBoot);
  if (!recovered.ok()) return 0;
  if (recovered->pool.has_value() &&
      (recovered->pool->num_pages() > kMostPages || recovered->pool->swap_slots() > kMostPages)) {
    return 0;
  }
  Begin(folder, *std::move(recovered), files.steps);
  return 0;
}
