// JournalRecord is an episode's record in real files. It begins new files while the episode runs,
// and compares what a next manager would read with the mirror of the harness: after any step, with
// a torn entry behind it, and cut off anywhere within the entries of the last step, which is damage
// if a reply had left after them.
#ifndef FOLIO_TESTS_FUZZ_JOURNAL_RECORD_H_
#define FOLIO_TESTS_FUZZ_JOURNAL_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "services/manager/manager_journal.h"
#include "services/manager/recovery.h"
#include "tests/common/temp_dir.h"
#include "tests/fuzz/episode_record.h"
#include "tests/manager/both_journals.h"

namespace folio::manager {

// JournalCoverage counts what happened, so that a run that tests nothing is noticed.
struct JournalCoverage {
  uint64_t files = 0, deaths_while_told_again = 0, images = 0, torn = 0, cuts = 0;
};

class JournalRecord final : public cache::EpisodeRecord {
 public:
  // Borrows both.
  JournalRecord(cache::Harness& harness, uint64_t seed, JournalCoverage& coverage);

  cache::Journal& journal() override { return *both_; }
  std::string AfterStep(const std::vector<WorkerId>& workers) override;
  absl::StatusOr<cache::SavedCache> Die(const cache::SavedCache& expected) override;
  void AfterRestart(bool has_contents) override;

 private:
  uint32_t Pick(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  bool OneIn(uint32_t n) { return Pick(n) == 0; }
  // A journal that follows the files that are there. Adds how they differ from what is expected.
  absl::StatusOr<Recovered> Begin();
  void TellOne(WorkerId worker);
  void TellWorkers(const std::vector<WorkerId>& workers);
  // Tells a few sequences again, or begins to, now and then.
  void TellAgain();
  // The newest file's name and bytes.
  std::string Newest() const;
  // The record that a manager finds if the newest file ends with these bytes, and replies have
  // left after so many of its bytes.
  absl::StatusOr<Recovered> ReadImage(const std::string& newest_bytes, uint64_t acknowledged);
  std::string CheckImage();
  std::string CheckCut(const std::string& bytes, size_t before);

  cache::Harness& harness_;
  JournalCoverage& coverage_;
  std::mt19937_64 random_;
  folio::testing::TempDir dir_;
  std::unique_ptr<ManagerJournal> journal_;
  std::unique_ptr<Both> both_;
  std::vector<WorkerId> workers_;
  // The last sequence that was told again, while a file is being begun.
  std::optional<SequenceId> told_;
  bool telling_ = false;
  // The newest file before the last step, if that step is to be cut.
  std::string cut_name_;
  size_t cut_size_ = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_TESTS_FUZZ_JOURNAL_RECORD_H_
