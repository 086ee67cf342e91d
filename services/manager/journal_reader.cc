#include "services/manager/journal_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/random_bytes.h"
#include "services/manager/journal/frames.h"
#include "services/manager/named_pages.h"
#include "services/manager/quota_message.h"
#include "services/wire/layout.h"

namespace folio::manager {
namespace {

// More than what a header that cannot be read may say of the ids before it. Two such headers, one
// after another, bring the ids to different places.
uint64_t IdsBeforeAHeader() { return (uint64_t{1} << 40) + (uint64_t{RandomWord()} << 16); }

}  // namespace

void JournalReader::NoteUnreadable(std::string why) {
  damage_.push_back(std::move(why));
  unread_ids_ += IdsBeforeAHeader();
}

void JournalReader::Expect(uint64_t bytes) {
  if (last_bytes_ >= bytes) return;
  damage_.push_back(absl::StrCat(last_name_, " at byte ", last_bytes_, ": the end of ", bytes,
                                 " acknowledged bytes is missing"));
  unread_ids_ += bytes - last_bytes_;
}

absl::Status JournalReader::ReadHeader(const state::JournalHeader& header,
                                       const std::string& name) {
  if (header.version() > kJournalVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        name, " was written by ", header.software(), ", in version ", header.version(),
        " of the format, and this manager reads up to ", kJournalVersion,
        "; start a manager of that version, or remove the folder's files to begin without the ",
        "sequences in them"));
  }
  header_boot_differs_ = header.machine_boot() != machine_boot_;
  other_boot_ |= header_boot_differs_;
  out_.manager_boot = std::max(out_.manager_boot, header.manager_boot());
  out_.last_ids.worker = std::max(out_.last_ids.worker, WorkerId(header.last_worker()));
  out_.last_ids.sequence = std::max(out_.last_ids.sequence, SequenceId(header.last_sequence()));
  out_.pid_namespace = header.pid_namespace();
  // A file that continues others, and has none before it, has repeated everything by its end. Until
  // then it may tell of changes before it repeats the sequence that they belong to.
  if (begun_ && complete_ && header.continues()) Expect(header.bytes_before());
  complete_ = begun_ && complete_ && header.continues();
  begun_ = true;
  sequences_here_.clear();
  workers_here_.clear();
  quotas_here_.clear();
  MoveQuarantines(std::exchange(quarantines_, {}), &out_.cache.quarantines);
  return absl::OkStatus();
}

absl::Status JournalReader::ReadPool(const state::JournalPool& pool) {
  if (absl::Status status = wire::CheckLayout(pool.layout()); !status.ok()) return status;
  // The head of a new file repeats the pool. Sequences that it keeps are of its layout.
  const bool another = out_.pool.has_value() && out_.pool->pool_id() != pool.pool_id();
  const bool keeps = !another || pool.replaces_memory();
  if (out_.pool.has_value() && keeps && !(wire::GeometryOf(pool.layout()) == geometry_)) {
    return absl::InternalError("the pool has another layout than before");
  }
  if (another) {
    workers_.clear();
    quarantines_.clear();
    out_.cache.quarantines.clear();
    if (!pool.replaces_memory()) sequences_.clear();
    for (auto& [id, sequence] : sequences_) sequence.LoseContents();
  }
  geometry_ = wire::GeometryOf(pool.layout());
  out_.pool = pool;
  return absl::OkStatus();
}

absl::Status JournalReader::ReadChange(const state::JournalChange& message) {
  auto change = FromMessage(message, geometry_);
  if (!change.ok()) return change.status();
  const auto it = sequences_.find(change->sequence);
  // It was not told of yet after a failure, and will be told with this change.
  if (it == sequences_.end() && !complete_) return absl::OkStatus();
  if (it == sequences_.end()) {
    return absl::InternalError(absl::StrCat("sequence ", message.sequence(), " is unknown"));
  }
  return it->second.Apply(*change);
}

absl::Status JournalReader::ReadQuota(const state::JournalQuota& message) {
  auto quota = QuotaFromProto(message.quota());
  if (!quota.ok()) return absl::InternalError(quota.status().message());
  if (!quota->limits()) {
    out_.quotas.erase(message.tenant());
    return absl::OkStatus();
  }
  out_.quotas[message.tenant()] = *quota;
  quotas_here_.insert(message.tenant());
  return absl::OkStatus();
}

// Those that this file does not name ended in a file before it.
void JournalReader::ReadWhole() {
  std::erase_if(sequences_, [&](const auto& one) { return !sequences_here_.contains(one.first); });
  std::erase_if(workers_, [&](const auto& one) { return !workers_here_.contains(one.first); });
  std::erase_if(out_.quotas, [&](const auto& one) { return !quotas_here_.contains(one.first); });
  out_.cache.quarantines.clear();
  damage_.clear();
  complete_ = true;
  other_boot_ = header_boot_differs_;
}

absl::Status JournalReader::ReadEntry(const JournalEntry& entry) {
  const JournalEntry::KindCase kind = entry.kind_case();
  if (!out_.pool.has_value() && kind != JournalEntry::kPool && kind != JournalEntry::kWhole &&
      kind != JournalEntry::kQuota) {
    return absl::InternalError("an entry comes before any pool");
  }
  switch (kind) {
    case JournalEntry::kPool:
      return ReadPool(entry.pool());
    case JournalEntry::kWorker:
      workers_[entry.worker().id()] = entry.worker();
      workers_here_.insert(entry.worker().id());
      out_.last_ids.worker = std::max(out_.last_ids.worker, WorkerId(entry.worker().id()));
      return absl::OkStatus();
    case JournalEntry::kWorkerGone:
      workers_.erase(entry.worker_gone());
      return absl::OkStatus();
    case JournalEntry::kQuarantineEnded: {
      const auto ended = [&](const cache::SavedQuarantine& one) {
        return one.owner.value() == entry.quarantine_ended();
      };
      std::erase_if(out_.cache.quarantines, ended);
      std::erase_if(quarantines_, ended);
      return absl::OkStatus();
    }
    case JournalEntry::kSequence: {
      auto saved = FromMessage(entry.sequence(), geometry_);
      if (!saved.ok()) return saved.status();
      const SequenceId id = saved->id;
      out_.last_ids.sequence = std::max(out_.last_ids.sequence, id);
      sequences_here_.insert(id);
      sequences_.insert_or_assign(id, *std::move(saved));
      return absl::OkStatus();
    }
    case JournalEntry::kChange:
      return ReadChange(entry.change());
    case JournalEntry::kSequenceEnded:
      sequences_.erase(SequenceId(entry.sequence_ended()));
      return absl::OkStatus();
    case JournalEntry::kQuarantine: {
      auto quarantine = FromMessage(entry.quarantine());
      if (!quarantine.ok()) return quarantine.status();
      quarantines_.push_back(*std::move(quarantine));
      return absl::OkStatus();
    }
    case JournalEntry::kQuota:
      return ReadQuota(entry.quota());
    case JournalEntry::kWhole:
      ReadWhole();
      return absl::OkStatus();
    case JournalEntry::kHeader:
    case JournalEntry::KIND_NOT_SET:
      break;
  }
  return absl::InternalError("an entry is of no known kind");
}

absl::Status JournalReader::ReadEntries(const std::string& name, absl::string_view bytes) {
  FrameReader frames(bytes);
  JournalEntry entry;
  bool begun = false;
  for (;;) {
    const size_t at = frames.offset();
    const auto frame = frames.Next();
    if (!frame.has_value()) break;
    absl::Status read = absl::InternalError("the file does not begin with its header");
    if (!entry.ParseFromArray(frame->data(), static_cast<int>(frame->size()))) {
      read = absl::InternalError("an entry cannot be parsed");
    } else if (!begun && entry.has_header()) {
      if (absl::Status s = ReadHeader(entry.header(), name); !s.ok()) return s;
      begun = true;
      continue;
    } else if (begun) {
      read = ReadEntry(entry);
    }
    if (read.ok()) continue;
    damage_.push_back(absl::StrCat(name, " at byte ", at, ": ", read.message()));
    unread_ids_ += begun ? bytes.size() - at : IdsBeforeAHeader();  // none is as short as a byte
    return absl::OkStatus();
  }
  const size_t unread = bytes.size() - frames.offset();
  if (frames.end() == FrameReader::End::kTorn) out_.torn_bytes += unread;
  if (frames.end() == FrameReader::End::kDamaged) {
    damage_.push_back(absl::StrCat(name, " at byte ", frames.offset(), ": wrong checksum"));
    if (!begun) unread_ids_ += IdsBeforeAHeader();
  }
  unread_ids_ += unread;
  return absl::OkStatus();
}

absl::Status JournalReader::ReadFile(const std::string& name, absl::string_view bytes) {
  absl::Status read = ReadEntries(name, bytes);
  last_name_ = name;
  last_bytes_ = bytes.size();
  return read;
}

Recovered JournalReader::Take() {
  MoveQuarantines(std::exchange(quarantines_, {}), &out_.cache.quarantines);
  DropUnfinishedQuarantines(sequences_, &out_.cache.quarantines);
  if (begun_ && !complete_) {
    damage_.emplace_back("a write had failed, and the journal ends before all was told again");
  }
  for (auto& [id, worker] : workers_) out_.workers.push_back(std::move(worker));
  for (auto& [id, sequence] : sequences_) {
    if (other_boot_) sequence.opened = SteadyNow();  // moments of another boot mean nothing
    out_.cache.sequences.push_back(std::move(sequence));
  }
  out_.last_ids.worker = WorkerId(out_.last_ids.worker.value() + unread_ids_);
  out_.last_ids.sequence = SequenceId(out_.last_ids.sequence.value() + unread_ids_);
  out_.cache.has_contents = damage_.empty() && !other_boot_;
  out_.damage = std::move(damage_);
  return std::move(out_);
}

}  // namespace folio::manager
