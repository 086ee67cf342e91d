// The journal's files, wherever they end and whatever damages them.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/cache/inspector.h"
#include "tests/manager/journal_fixture.h"

namespace folio::manager {
namespace {

using cache::Coordinator;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(JournalTest, EveryBeginningOfAFileIsAStateThatExisted) {
  Live();
  journal_.reset();
  ForgetReplies();
  const auto files = Files();
  ASSERT_THAT(files, SizeIs(1));
  const std::string whole = Contents(files[0]);
  size_t states = 0, owed = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(files[0], std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    Recovered recovered = Read();
    if (!recovered.pool.has_value()) continue;
    EXPECT_THAT(recovered.damage, IsEmpty()) << size;
    for (const WorkerId worker : {WorkerId(1), WorkerId(2)}) {
      recovered.cache.workers.push_back({worker, "w"});
    }
    cache::CoordinatorOptions options = harness_.options;
    options.journal = nullptr;
    cache::IdSource ids(recovered.last_ids);
    options.ids = &ids;
    Coordinator next(options);
    const cache::Restored restored = cache::Restoration(next).Restore(std::move(recovered.cache));
    EXPECT_TRUE(restored.has_contents) << size;
    // A cut between a commit and its decision leaves the decision to the next manager.
    owed += cache::Restoration(next).Decide();
    EXPECT_EQ(cache::Inspector(next).CheckInvariants(), absl::OkStatus()) << size;
    ++states;
  }
  EXPECT_GT(states, 100U);
  EXPECT_GT(owed, 0U);
}

TEST_F(JournalTest, AnAcknowledgedEntryThatIsCutOffIsDamage) {
  Live();
  journal_.reset();
  const auto files = Files();
  const std::string whole = Contents(files[0]);
  const cache::LastIds given = Read().last_ids;
  for (size_t size = 0; size < whole.size(); ++size) {
    std::ofstream(files[0], std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const Recovered recovered = Read();
    EXPECT_THAT(recovered.damage, Contains(HasSubstr("acknowledged bytes is missing"))) << size;
    EXPECT_FALSE(recovered.cache.has_contents) << size;
    EXPECT_GE(recovered.last_ids.sequence, given.sequence) << size;
    EXPECT_GE(recovered.last_ids.worker, given.worker) << size;
  }
  std::filesystem::remove(files[0]);
  std::ofstream(path() + "/journal-0") << "";
  EXPECT_THAT(Read().damage, ElementsAre(HasSubstr("journal-1 is missing")));
}

TEST_F(JournalTest, AWriteThatNothingHasHeardOfIsNoDamage) {
  Live();
  journal_.reset();
  std::ofstream(Files()[0], std::ios::binary | std::ios::app) << "begins";
  const Recovered recovered = Read();
  EXPECT_THAT(recovered.damage, IsEmpty());
  EXPECT_EQ(recovered.torn_bytes, 6U);
  EXPECT_EQ(Found(recovered), Expected());
}

// The next manager begins a file behind it, and may die before that is whole.
TEST_F(JournalTest, AnEntryThatIsCutOffIsStillMissedByTheManagerAfterTheNext) {
  Live();
  journal_.reset();
  const auto files = Files();
  const std::string whole = Contents(files[0]);
  std::ofstream(files[0], std::ios::binary | std::ios::trunc) << whole.substr(0, whole.size() - 9);
  for (int manager = 0; manager < 3; ++manager) {
    auto directory = StateDirectory::Open(path());
    ASSERT_TRUE(directory.ok()) << directory.status();
    const auto recovered = Recover(**directory);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    EXPECT_FALSE(recovered->cache.has_contents) << manager;
    EXPECT_THAT(recovered->damage, Contains(HasSubstr("is missing"))) << manager;
    ManagerJournal(*std::move(directory), *recovered).files().Flush();
  }
}

TEST_F(JournalTest, ADamagedMarkIsNoticed) {
  Live();
  journal_.reset();
  const std::string mark = Contents(Acknowledged::FileOf(path()));
  ASSERT_THAT(mark, ::testing::StartsWith("journal-0"));
  for (size_t bit = 0; bit < 8 * mark.size(); ++bit) {
    std::string damaged = mark;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    std::ofstream(Acknowledged::FileOf(path()), std::ios::binary | std::ios::trunc) << damaged;
    EXPECT_THAT(Read().damage, ElementsAre(HasSubstr("acknowledged is damaged"))) << bit;
  }
}

TEST_F(JournalTest, DamageIsNamedAndNothingBehindItBelieved) {
  Live();
  journal_.reset();
  const auto files = Files();
  std::string bytes = Contents(files[0]);
  bytes[bytes.size() - 40] ^= 1;
  std::ofstream(files[0], std::ios::binary | std::ios::trunc) << bytes;
  const Recovered recovered = Read();
  ASSERT_THAT(recovered.damage, SizeIs(1));
  EXPECT_THAT(recovered.damage[0], HasSubstr("wrong checksum"));
  EXPECT_FALSE(recovered.cache.has_contents);
  EXPECT_THAT(recovered.cache.sequences, ::testing::Not(IsEmpty()));
}

TEST_F(JournalTest, NoIdIsGivenTwiceAfterAnyDamage) {
  Live();
  journal_.reset();
  const auto files = Files();
  const std::string whole = Contents(files[0]);
  const cache::LastIds given = Read().last_ids;
  ASSERT_GT(given.sequence, SequenceId(1));
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] ^= 1;
    std::ofstream(files[0], std::ios::binary | std::ios::trunc) << bytes;
    const cache::LastIds left = Read().last_ids;
    EXPECT_GE(left.sequence, given.sequence) << at;
    EXPECT_GE(left.worker, given.worker) << at;
  }
}

TEST_F(JournalTest, AHeadThatIsCutOffHidesNothingOfTheFileBefore) {
  Live();
  state::JournalWorker worker;
  worker.set_id(2);
  worker.add_ranks();
  journal_->OnWorker(worker);
  journal_->BeginFile();
  journal_->files().Flush();
  journal_.reset();
  ForgetReplies();
  const auto files = Files();
  ASSERT_THAT(files, SizeIs(2));
  const std::string whole = Contents(files[1]);
  for (size_t size = 0; size <= whole.size(); ++size) {
    std::ofstream(files[1], std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    const Recovered recovered = Read();
    EXPECT_TRUE(recovered.cache.has_contents) << size;
    EXPECT_THAT(recovered.workers, SizeIs(1)) << size;
    size_t quarantined = 0;
    for (const auto& one : recovered.cache.quarantines) quarantined += one.pages.size();
    EXPECT_GT(quarantined, 0U) << size;
    EXPECT_EQ(Found(recovered), Expected()) << size;
  }
}

}  // namespace
}  // namespace folio::manager
