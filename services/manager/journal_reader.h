// JournalReader makes what the last manager knew of the files of its journal.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_READER_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_READER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "folio/state/v1/journal.pb.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/cache/saved_sequence.h"
#include "services/manager/journal_messages.h"
#include "services/manager/recovery.h"

namespace folio::manager {

// Reads the files of a directory one after the other. Thread-compatible.
class JournalReader {
 public:
  explicit JournalReader(absl::string_view machine_boot) : machine_boot_(machine_boot) {}

  // FAILED_PRECONDITION for one of a newer version. Take tells of damage, which is not an error.
  absl::Status ReadFile(const std::string& name, absl::string_view bytes);
  // The file that was read last should have so many bytes.
  void Expect(uint64_t bytes);
  // A whole file, with its header, or more than is known.
  void NoteUnreadable(std::string why);
  Recovered Take();

 private:
  using JournalEntry = state::JournalEntry;

  absl::Status ReadEntries(const std::string& name, absl::string_view bytes);
  absl::Status ReadHeader(const state::JournalHeader& header, const std::string& name);
  // An error is damage, which ends the reading of this file.
  absl::Status ReadEntry(const JournalEntry& entry);
  absl::Status ReadPool(const state::JournalPool& pool);
  absl::Status ReadChange(const state::JournalChange& message);
  absl::Status ReadQuota(const state::JournalQuota& message);
  void ReadWhole();

  const absl::string_view machine_boot_;
  Recovered out_;
  CacheGeometry geometry_;
  bool header_boot_differs_ = false;  // of the file that is being read
  bool other_boot_ = false;           // of any file that counts
  bool begun_ = false;                // a header was read
  // Whether nothing is missing: the files before count, or this one is whole.
  bool complete_ = false;
  std::map<uint64_t, state::JournalWorker> workers_;
  std::map<SequenceId, cache::SavedSequence> sequences_;
  std::vector<cache::SavedQuarantine> quarantines_;  // of this file; those before it are in out_
  // Told of in the file that is being read. When that is whole, nothing else is left.
  std::set<SequenceId> sequences_here_;
  std::set<uint64_t> workers_here_;
  std::set<std::string> quotas_here_;
  std::vector<std::string> damage_;
  std::string last_name_;  // of the file that was read last
  uint64_t last_bytes_ = 0;
  uint64_t unread_ids_ = 0;  // at least as many as entries that were not read have given
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_READER_H_
