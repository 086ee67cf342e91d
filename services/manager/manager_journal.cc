#include "services/manager/manager_journal.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/saved_sequence.h"
#include "services/cache/sequence_record.h"
#include "services/manager/journal/frames.h"
#include "services/manager/journal_messages.h"
#include "services/manager/process_watch.h"
#include "services/manager/quota_message.h"
#include "services/runtime/version.h"

namespace folio::manager {
namespace {

void SetQuota(const std::string& tenant, const cache::Quota& quota, state::JournalEntry& entry) {
  entry.mutable_quota()->set_tenant(tenant);
  *entry.mutable_quota()->mutable_quota() = QuotaToProto(quota);
}

}  // namespace

ManagerJournal::ManagerJournal(std::unique_ptr<StateDirectory> directory, const Recovered& before,
                               size_t least_file_bytes)
    : files_(std::move(directory), least_file_bytes),
      manager_boot_(before.manager_boot + 1),
      last_ids_(before.last_ids),
      quotas_(before.quotas) {
  BeginFile();
}

std::string ManagerJournal::Head(const JournalFiles::FileBefore& before) const {
  std::string frames;
  state::JournalEntry entry;
  state::JournalHeader* header = entry.mutable_header();
  header->set_version(kJournalVersion);
  header->set_software(absl::StrCat("folio-manager ", BuildDescription()));
  header->set_machine_boot(MachineBoot());
  header->set_manager_boot(manager_boot_);
  header->set_continues(before.exists);
  header->set_bytes_before(before.exists ? before.bytes : 0);
  header->set_pid_namespace(PidNamespace());
  header->set_last_worker(last_ids_.worker.value());
  header->set_last_sequence(last_ids_.sequence.value());
  AppendFrame(entry.SerializeAsString(), &frames);
  for (const auto& [tenant, quota] : quotas_) {
    SetQuota(tenant, quota, entry);
    AppendFrame(entry.SerializeAsString(), &frames);
  }
  if (!pool_.has_value()) return frames;
  *entry.mutable_pool() = *pool_;
  AppendFrame(entry.SerializeAsString(), &frames);
  for (const auto& [id, worker] : workers_) {
    *entry.mutable_worker() = worker;
    AppendFrame(entry.SerializeAsString(), &frames);
  }
  for (const cache::SavedQuarantine& quarantine : quarantines_) {
    entry.Clear();
    ToMessage(quarantine, entry.mutable_quarantine());
    AppendFrame(entry.SerializeAsString(), &frames);
  }
  return frames;
}

void ManagerJournal::OnState(const cache::SequenceRecord& record) {
  state::JournalEntry entry;
  ToMessage(cache::Save(record), entry.mutable_sequence());
  absl::MutexLock lock(&mu_);
  last_ids_.sequence = std::max(last_ids_.sequence, record.id);
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnChange(const cache::SavedChange& change) {
  state::JournalEntry entry;
  ToMessage(change, entry.mutable_change());
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnEnd(SequenceId sequence) {
  state::JournalEntry entry;
  entry.set_sequence_ended(sequence.value());
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnQuarantine(WorkerId owner, const PageList& pages,
                                  const std::vector<SwapSlot>& slots) {
  state::JournalEntry entry;
  const cache::SavedQuarantine quarantine = {owner, pages, slots};
  ToMessage(quarantine, entry.mutable_quarantine());
  absl::MutexLock lock(&mu_);
  quarantines_.push_back(quarantine);
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnQuarantineEnd(WorkerId owner) {
  state::JournalEntry entry;
  entry.set_quarantine_ended(owner.value());
  absl::MutexLock lock(&mu_);
  const auto of_owner = [owner](const auto& one) { return one.owner == owner; };
  if (std::erase_if(quarantines_, of_owner) > 0) files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnPool(const state::JournalPool& pool) {
  state::JournalEntry entry;
  *entry.mutable_pool() = pool;
  absl::MutexLock lock(&mu_);
  pool_ = pool;
  workers_.clear();
  quarantines_.clear();
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnWorker(const state::JournalWorker& worker) {
  state::JournalEntry entry;
  *entry.mutable_worker() = worker;
  absl::MutexLock lock(&mu_);
  const WorkerId id(worker.id());
  workers_[id] = worker;
  last_ids_.worker = std::max(last_ids_.worker, id);
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnWorkerGone(WorkerId worker) {
  state::JournalEntry entry;
  entry.set_worker_gone(worker.value());
  absl::MutexLock lock(&mu_);
  workers_.erase(worker);
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::OnQuota(const std::string& tenant, const cache::Quota& quota) {
  state::JournalEntry entry;
  SetQuota(tenant, quota, entry);
  absl::MutexLock lock(&mu_);
  if (quota.limits()) {
    quotas_[tenant] = quota;
  } else if (quotas_.erase(tenant) == 0) {
    return;
  }
  files_.Append(entry.SerializeAsString());
}

void ManagerJournal::BeginFile() {
  files_.Flush();  // so that there is little to write while the lock is held
  absl::MutexLock lock(&mu_);
  files_.BeginFile([this](const JournalFiles::FileBefore& before) {
    mu_.AssertHeld();
    return Head(before);
  });
}

void ManagerJournal::EndFile() {
  state::JournalEntry entry;
  entry.set_whole(true);
  files_.Append(entry.SerializeAsString());
  files_.EndFile();
}

}  // namespace folio::manager
