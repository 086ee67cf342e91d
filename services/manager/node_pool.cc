#include "services/manager/node_pool.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "services/cache/restoration.h"
#include "services/manager/worker_name.h"
#include "services/runtime/logging.h"
#include "services/wire/layout.h"

namespace folio::manager {
namespace {

// So many sequences are told to the journal while others wait for the coordinator's lock.
constexpr uint32_t kToldAtOnce = 8;

void LogMade(const Pool& pool, const PageSource& source) {
  const PoolExport& memory = pool.memory();
  log::Info("pool created", {{"model", pool.layout().model()},
                             {"pages", cache::Inspector(pool.coordinator()).pool().total},
                             {"page_bytes", pool.page_bytes()},
                             {"ranks", pool.memory().ranks()},
                             {"pool_bytes", memory.pool_bytes()},
                             {"device", source.device()},
                             {"score_board_bytes", memory.score_board_bytes()},
                             {"swap_slots", pool.swap_slots()},
                             {"swap_bytes", memory.swap_bytes()},
                             {"huge_pages", HugePagesName(memory.huge_pages())}});
}

}  // namespace

NodePool::NodePool(const Options& options) : options_(options) {
  if (options_.users.ids == nullptr) options_.users.ids = &own_ids_;
  options_.users.ids->Skip(options_.last_ids);
}

std::shared_ptr<const Pool> NodePool::current() const {
  absl::MutexLock lock(&mu_);
  return pool_;
}

absl::Status NodePool::CheckUnused() const {
  absl::MutexLock lock(&mu_);
  return CheckUnusedLocked();
}

absl::Status NodePool::CheckUnusedLocked() const {
  if (pool_ == nullptr) return absl::OkStatus();
  const std::string model = absl::StrCat("the pool of model \"", pool_->layout().model(), "\"");
  if (!mapped_.empty()) {
    const auto& [process, mapping] = *mapped_.begin();
    return absl::UnavailableError(absl::StrCat(model, " is still mapped by process ", mapping.pid,
                                               " of worker ", WorkerName(process.worker),
                                               "; try again when it has ended"));
  }
  const cache::PoolInfo info = cache::Inspector(pool_->coordinator()).pool();
  if (info.sequences > 0 || info.free != info.total) {
    return absl::UnavailableError(
        absl::StrCat(model, " still has sequences of lost workers (", info.sequences, "), which ",
                     "wait for another worker of that model; try again when they have ended"));
  }
  if (pool_.use_count() > 1) {
    return absl::UnavailableError(absl::StrCat(model, " is being read; try again"));
  }
  return absl::OkStatus();
}

absl::Status NodePool::Make(const v1::ModelLayout& layout) {
  if (absl::Status status = wire::CheckLayout(layout); !status.ok()) return status;
  PoolRules rules = options_.rules;
  // Its driver may give this process memory of a pool before, as it was.
  if (options_.pages->on_gpus()) rules.clear_pages = cache::ForUsedMemory(rules.clear_pages);
  {
    absl::MutexLock lock(&mu_);
    if (absl::Status status = CheckUnusedLocked(); !status.ok()) return status;
    if (pool_ != nullptr) {
      log::Info("pool given back", {{"model", pool_->layout().model()}, {"for", layout.model()}});
    }
    pool_.reset();
  }
  PoolSize size = options_.size;
  if (options_.beside) size.beside = options_.beside();
  auto pool = Pool::Create(layout, *options_.pages, size, rules, options_.users);
  if (!pool.ok()) return pool.status();
  LogMade(**pool, *options_.pages);
  if (options_.users.journal != nullptr) options_.users.journal->OnPool((*pool)->Saved());
  absl::MutexLock lock(&mu_);
  pool_ = *std::move(pool);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Pool>> NodePool::Expect(const folio::state::v1::JournalPool& saved) {
  auto pool = Pool::Expect(saved, options_.rules, options_.users);
  if (!pool.ok()) return pool.status();
  absl::MutexLock lock(&mu_);
  pool_ = *std::move(pool);
  return pool_;
}

void NodePool::TellAll() {
  ManagerJournal& journal = *options_.users.journal;
  journal.BeginFile();
  if (const std::shared_ptr<const Pool> pool = current()) {
    cache::Restoration record(pool->coordinator());
    std::optional<SequenceId> last = SequenceId(0);
    while (last.has_value()) {
      last = record.TellAgain(*last, kToldAtOnce);
      journal.files().Flush();
    }
  }
  journal.EndFile();
}

std::vector<WorkerProcess> NodePool::NoteMapped(WorkerProcess process, pid_t pid) {
  absl::MutexLock lock(&mu_);
  std::vector<WorkerProcess> former;
  for (const auto& [other, mapping] : mapped_) {
    if (mapping.left && mapping.pid == pid && pid != 0) former.push_back(other);
  }
  for (const WorkerProcess& other : former) mapped_.erase(other);
  mapped_[process] = {.pid = pid};
  return former;
}

void NodePool::NoteLeft(WorkerId worker) {
  absl::MutexLock lock(&mu_);
  for (auto& [process, mapping] : mapped_) mapping.left |= process.worker == worker;
}

void NodePool::NoteUnmapped(WorkerProcess process) {
  absl::MutexLock lock(&mu_);
  mapped_.erase(process);
}

void NodePool::NoteUnmapped(WorkerId worker) {
  absl::MutexLock lock(&mu_);
  std::erase_if(mapped_, [worker](const auto& one) { return one.first.worker == worker; });
}

}  // namespace folio::manager
