#include "tests/fuzz/journal_record.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"
#include "services/manager/journal/acknowledged.h"
#include "services/manager/journal/frames.h"
#include "services/manager/journal/state_directory.h"
#include "services/manager/journal_messages.h"
#include "tests/manager/journal_bytes.h"
#include "tests/manager/pool_message.h"

namespace folio::manager {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "journal-";

std::unique_ptr<StateDirectory> MustOpenDirectory(const std::string& path) {
  auto directory = StateDirectory::Open(path);
  FOLIO_CHECK(directory.ok());
  return *std::move(directory);
}

// Each quarantined page and slot with its owner. One quarantine may be named in several parts.
std::set<std::string> Quarantined(const std::vector<cache::SavedQuarantine>& quarantines,
                                  const std::vector<cache::LostWorker>& workers) {
  std::set<std::string> names;
  for (const cache::SavedQuarantine& one : quarantines) {
    const bool known = std::any_of(workers.begin(), workers.end(),
                                   [&](const auto& worker) { return worker.id == one.owner; });
    if (!known) continue;
    for (const PageRef page : one.pages) {
      names.insert(absl::StrCat(one.owner.value(), " page ", page.page.value(), " generation ",
                                page.generation.value()));
    }
    for (const SwapSlot slot : one.slots) {
      names.insert(absl::StrCat(one.owner.value(), " slot ", slot.value()));
    }
  }
  return names;
}

// How what was read differs from what was told, or "".
std::string Differs(const Recovered& read, const cache::SavedCache& told) {
  if (!read.damage.empty()) return absl::StrCat("taken for damaged: ", read.damage.front());
  if (!read.cache.has_contents) return "the contents are not believed";
  std::map<SequenceId, std::string> expected;
  for (const cache::SavedSequence& one : told.sequences) expected[one.id] = Bytes(one);
  if (read.cache.sequences.size() != expected.size()) {
    return absl::StrCat(read.cache.sequences.size(), " sequences, not ", expected.size());
  }
  for (const cache::SavedSequence& one : read.cache.sequences) {
    const auto it = expected.find(one.id);
    if (it == expected.end()) return absl::StrCat("sequence ", one.id.value(), " had ended");
    if (it->second != Bytes(one)) return absl::StrCat("sequence ", one.id.value(), " differs");
    if (one.id > read.last_ids.sequence) return "the id of a sequence could be given twice";
  }
  if (Quarantined(read.cache.quarantines, told.workers) !=
      Quarantined(told.quarantines, told.workers)) {
    return "other pages are in quarantine";
  }
  return "";
}

}  // namespace

JournalRecord::JournalRecord(cache::Harness& harness, uint64_t seed, JournalCoverage& coverage)
    : harness_(harness), coverage_(coverage), random_(seed) {
  FOLIO_CHECK(Begin().ok());
  journal_->EndFile();
}

absl::StatusOr<Recovered> JournalRecord::Begin() {
  both_.reset();
  journal_.reset();  // what it has not flushed is lost
  auto directory = MustOpenDirectory(dir_ / "state");
  absl::StatusOr<Recovered> recovered = Recover(*directory);
  if (!recovered.ok()) return recovered;
  journal_ = std::make_unique<ManagerJournal>(std::move(directory), *recovered);
  journal_->OnPool(PoolMessage(harness_.options));
  for (const WorkerId worker : workers_) TellOne(worker);
  both_ = std::make_unique<Both>(*journal_, harness_.journal);
  cut_name_.clear();
  return recovered;
}

void JournalRecord::TellOne(WorkerId worker) {
  state::JournalWorker message;
  message.set_id(worker.value());
  message.set_name("w");
  journal_->OnWorker(message);
}

void JournalRecord::TellWorkers(const std::vector<WorkerId>& workers) {
  const auto none_of = [](const std::vector<WorkerId>& list, WorkerId worker) {
    return std::find(list.begin(), list.end(), worker) == list.end();
  };
  for (const WorkerId worker : workers) {
    if (none_of(workers_, worker)) TellOne(worker);
  }
  for (const WorkerId worker : workers_) {
    if (none_of(workers, worker)) journal_->OnWorkerGone(worker);
  }
  workers_ = workers;
}

absl::StatusOr<cache::SavedCache> JournalRecord::Die(const cache::SavedCache& expected) {
  if (telling_) ++coverage_.deaths_while_told_again;
  telling_ = false;
  absl::StatusOr<Recovered> recovered = Begin();
  if (!recovered.ok()) return recovered.status();
  if (std::string wrong = Differs(*recovered, expected); !wrong.empty()) {
    return absl::InternalError(absl::StrCat("the next manager: ", wrong));
  }
  if (recovered->workers.size() != workers_.size()) return absl::InternalError("other workers");
  recovered->cache.workers = expected.workers;
  return std::move(recovered->cache);
}

void JournalRecord::AfterRestart(bool has_contents) {
  // It may die before it has said that all is told. Then the files before still count.
  if (has_contents && OneIn(3)) {
    telling_ = true;
    told_ = std::nullopt;
  } else {
    journal_->EndFile();
  }
  journal_->files().Flush();
}

void JournalRecord::TellAgain() {
  if (!telling_) {
    if (!OneIn(60)) return;
    journal_->BeginFile();
    telling_ = true;
    told_ = SequenceId(0);
    ++coverage_.files;
    return;
  }
  if (!OneIn(3)) return;
  if (told_.has_value()) {
    told_ = cache::Restoration(*harness_.coordinator).TellAgain(*told_, 1 + Pick(3));
    return;
  }
  journal_->EndFile();
  telling_ = false;
}

std::string JournalRecord::Newest() const {
  std::string newest;
  for (const auto& entry : fs::directory_iterator(dir_ / "state")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kPrefix)) continue;
    const bool newer = std::pair(name.size(), name) > std::pair(newest.size(), newest);
    if (newer) newest = name;  // they end with a number
  }
  return newest;
}

absl::StatusOr<Recovered> JournalRecord::ReadImage(const std::string& newest_bytes,
                                                   uint64_t acknowledged) {
  const fs::path image = dir_ / "image";
  fs::remove_all(image);
  fs::create_directory(image);
  for (const auto& entry : fs::directory_iterator(dir_ / "state")) {
    if (entry.path().filename() == "lock") continue;
    fs::copy_file(entry.path(), image / entry.path().filename());
  }
  const std::string newest = Newest();
  std::ofstream(image / newest, std::ios::binary | std::ios::trunc) << newest_bytes;
  const uint64_t number = std::stoull(newest.substr(std::string(kPrefix).size()));
  FOLIO_CHECK(Acknowledged(image).Store({number, acknowledged}).ok());
  return Recover(*MustOpenDirectory(image));
}

std::string JournalRecord::CheckImage() {
  ++coverage_.images;
  std::string bytes = Contents(fs::path(dir_ / "state") / Newest());
  const size_t acknowledged = bytes.size();
  const bool torn = OneIn(2);
  if (torn) {
    ++coverage_.torn;
    std::string frame;
    AppendFrame(std::string(1 + Pick(40), 'x'), &frame);
    bytes.append(frame, 0, 1 + Pick(static_cast<uint32_t>(frame.size() - 1)));
  }
  const auto read = ReadImage(bytes, acknowledged);
  if (!read.ok()) return read.status().ToString();
  cache::SavedCache told;
  for (const auto& [id, sequence] : harness_.journal.sequences()) {
    told.sequences.push_back(sequence);
  }
  for (const WorkerId worker : workers_) told.workers.push_back({worker, "w"});
  told.quarantines = harness_.journal.quarantines();
  std::string wrong = Differs(*read, told);
  if (wrong.empty() && torn != (read->torn_bytes > 0)) wrong = "a torn entry was not noticed";
  return wrong;
}

// A manager may die within the write of a step. No reply has left by then, so the next one may have
// any part of the step, as long as it fits together.
std::string JournalRecord::CheckCut(const std::string& bytes, size_t before) {
  ++coverage_.cuts;
  const size_t cut = before + Pick(static_cast<uint32_t>(bytes.size() - before));
  // Had a reply left, the cut would be damage.
  const auto damaged = ReadImage(bytes.substr(0, cut), bytes.size());
  if (!damaged.ok()) return damaged.status().ToString();
  if (damaged->cache.has_contents) return "an acknowledged entry that is missing was not missed";
  auto read = ReadImage(bytes.substr(0, cut), before);
  if (!read.ok()) return read.status().ToString();
  if (!read->damage.empty()) return absl::StrCat("taken for damaged: ", read->damage.front());
  read->cache.workers.clear();
  for (const auto& worker : read->workers) {
    read->cache.workers.push_back({WorkerId(worker.id()), worker.name()});
  }
  cache::CoordinatorOptions options = harness_.options;
  cache::TenantQuotas quotas(options.clock);
  cache::MirrorJournal mirror;
  cache::IdSource ids;
  ids.Skip(read->last_ids);
  options.quotas = &quotas;
  options.journal = &mirror;
  options.ids = &ids;
  cache::Coordinator next(options);
  const cache::Restored restored = cache::Restoration(next).Restore(std::move(read->cache));
  if (!restored.has_contents) return "two sequences have one page";
  (void)cache::Restoration(next).Decide();  // the step may have ended before its decision
  return std::string(cache::Inspector(next).CheckInvariants().message());
}

std::string JournalRecord::AfterStep(const std::vector<WorkerId>& workers) {
  TellWorkers(workers);
  journal_->files().Flush();
  std::string wrong;
  if (!cut_name_.empty() && cut_name_ == Newest()) {
    const std::string bytes = Contents(fs::path(dir_ / "state") / cut_name_);
    if (bytes.size() > cut_size_) wrong = CheckCut(bytes, cut_size_);
  }
  cut_name_.clear();
  if (wrong.empty() && OneIn(100)) wrong = CheckImage();
  TellAgain();
  journal_->files().Flush();
  if (wrong.empty() && OneIn(50)) {
    cut_name_ = Newest();
    cut_size_ = fs::file_size(fs::path(dir_ / "state") / cut_name_);
  }
  return wrong;
}

}  // namespace folio::manager
