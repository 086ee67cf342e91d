// The journal's files: what is written is what is read.
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/manager/journal_fixture.h"

namespace folio::manager {
namespace {

using cache::WorkerSequence;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(JournalTest, GivesBackWhatItWasTold) {
  Live();
  const auto expected = Expected();
  ASSERT_THAT(expected, SizeIs(2));
  const Recovered recovered = Read();
  EXPECT_EQ(Found(recovered), expected);
  EXPECT_TRUE(recovered.cache.has_contents);
  EXPECT_THAT(recovered.damage, IsEmpty());
  EXPECT_EQ(recovered.torn_bytes, 0U);
  EXPECT_EQ(recovered.pool->pool_id(), "a pool");
  EXPECT_EQ(recovered.last_ids.sequence, SequenceId(4));
  EXPECT_EQ(recovered.manager_boot, 1U);
  EXPECT_THAT(recovered.cache.quarantines, SizeIs(1));
}

TEST_F(JournalTest, NothingInPagesOutlivesTheMachine) {
  Live();
  const Recovered recovered = Read("another boot");
  EXPECT_FALSE(recovered.cache.has_contents);
  EXPECT_THAT(recovered.cache.sequences, SizeIs(2));
}

TEST_F(JournalTest, ANewFileTakesThePlaceOfTheOldOnes) {
  Begin(/*least_file_bytes=*/1);
  Live();
  ASSERT_TRUE(journal_->files().wants_new_file());
  const auto before = Files();
  journal_->BeginFile();
  // One ends meanwhile, and one is told of before its turn.
  cache::Restoration record(*harness_.coordinator);
  const SequenceId first = harness_.journal.sequences().begin()->first;
  EXPECT_EQ(record.TellAgain(SequenceId(0), 1), first);
  WorkerSequence late = Open(4, Full());
  ASSERT_TRUE(late.Close().ok());
  EXPECT_EQ(record.TellAgain(first, 10), std::nullopt);
  journal_->files().Flush();
  EXPECT_THAT(Files(), SizeIs(before.size() + 1)) << "the old ones stay until all is told";
  journal_->EndFile();
  EXPECT_THAT(Files(), SizeIs(1));
  const auto expected = Expected();
  const Recovered recovered = Read();
  EXPECT_EQ(Found(recovered), expected);
  EXPECT_THAT(recovered.cache.quarantines, SizeIs(1));
  EXPECT_EQ(recovered.last_ids.sequence, late.id);
}

TEST_F(JournalTest, ADeathWhileAllIsToldAgainCostsNothing) {
  Live();
  journal_->BeginFile();
  (void)cache::Restoration(*harness_.coordinator).TellAgain(SequenceId(0), 1);
  journal_->files().Flush();
  const auto expected = Expected();
  EXPECT_EQ(Found(Read()), expected);
}

TEST_F(JournalTest, AWorkerThatIsGoneLeavesNoQuarantine) {
  Live();
  state::JournalWorker worker;
  worker.set_id(2);
  worker.set_name("lost");
  journal_->OnWorker(worker);
  harness_.coordinator->ConfirmExited(WorkerId(2));
  journal_->OnWorkerGone(WorkerId(2));
  journal_->files().Flush();
  const Recovered recovered = Read();
  EXPECT_THAT(recovered.workers, IsEmpty());
  EXPECT_THAT(recovered.cache.quarantines, IsEmpty());
}

TEST_F(JournalTest, QuotasOutliveAManagerAndGoWhenTheyAreTakenAway) {
  const cache::Quota first = {.sequences = 2, .requests_per_minute = 30};
  const cache::Quota second = {.pages = PageCount(7)};
  journal_->OnQuota("a", first);
  journal_->OnQuota("b", second);
  journal_->OnQuota("c", second);
  journal_->OnQuota("c", {});
  journal_->OnQuota("d", {});
  journal_->files().Flush();
  const cache::QuotasByTenant both = {{"a", first}, {"b", second}};
  EXPECT_EQ(Read().quotas, both);
  Begin();  // the next manager begins a file
  EXPECT_EQ(Read().quotas, both);
  Begin();
  journal_->OnQuota("a", {});
  journal_->BeginFile();  // and dies before it has told all again
  const cache::QuotasByTenant one = {{"b", second}};
  EXPECT_EQ(Read().quotas, one);
  Begin();
  EXPECT_EQ(Read().quotas, one);
}

TEST_F(JournalTest, CountsWhatItWrites) {
  const JournalCounts before = journal_->files().counts();
  EXPECT_EQ(before.files, 1U);
  Live();
  journal_->files().Flush();
  const JournalCounts after = journal_->files().counts();
  EXPECT_GT(after.entries, before.entries + 10);
  EXPECT_EQ(after.failures, 0U);
  size_t on_disk = 0;
  for (const auto& file : Files()) on_disk += std::filesystem::file_size(file);
  EXPECT_EQ(after.file_bytes, on_disk);
  EXPECT_EQ(after.bytes, on_disk) << "there was one file";
  journal_->BeginFile();
  journal_->EndFile();
  EXPECT_EQ(journal_->files().counts().files, 2U);
  EXPECT_LT(journal_->files().counts().file_bytes, after.file_bytes);
}

TEST_F(JournalTest, NewMemoryKeepsTheTokensAlone) {
  Live();
  state::JournalPool pool = PoolMessage();
  pool.set_pool_id("other memory");
  pool.set_replaces_memory(true);
  journal_->OnPool(pool);
  journal_->files().Flush();
  const Recovered recovered = Read();
  ASSERT_THAT(recovered.cache.sequences, SizeIs(2));
  for (const cache::SavedSequence& saved : recovered.cache.sequences) {
    EXPECT_TRUE(saved.parked);
    EXPECT_EQ(saved.logical_length, TokenCount(0));
  }
  EXPECT_THAT(recovered.cache.quarantines, IsEmpty());
}

TEST_F(JournalTest, AnotherPoolHasNoneOfTheOldSequences) {
  Live();
  state::JournalPool pool = PoolMessage();
  pool.set_pool_id("another");
  journal_->OnPool(pool);
  journal_->files().Flush();
  EXPECT_THAT(Read().cache.sequences, IsEmpty());
}

TEST_F(JournalTest, AFullDiskLeavesNoOldRecordAndItBeginsAgain) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full = {64, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &full);
  Live();
  EXPECT_TRUE(journal_->files().failed());
  EXPECT_GE(journal_->files().counts().failures, 1U);
  EXPECT_THAT(Files(), IsEmpty());
  setrlimit(RLIMIT_FSIZE, &before);
  while (!journal_->files().wants_new_file()) absl::SleepFor(absl::Milliseconds(50));
  journal_->BeginFile();
  EXPECT_EQ(cache::Restoration(*harness_.coordinator).TellAgain(SequenceId(0), 10), std::nullopt);
  journal_->EndFile();
  EXPECT_FALSE(journal_->files().failed());
  const auto expected = Expected();
  EXPECT_EQ(Found(Read()), expected);
}

TEST_F(JournalTest, AFileThatBeganAgainIsNotBelievedBeforeItIsWhole) {
  Live();
  journal_->files().Flush();
  for (const auto& file : Files()) std::filesystem::remove(file);
  journal_->BeginFile();
  // A change of one that was not told of again yet does not end the reading.
  WorkerSequence opened = Open(4, Full());
  ASSERT_TRUE(opened.Commit(4).ok());
  journal_->files().Flush();
  const Recovered recovered = Read();
  EXPECT_FALSE(recovered.cache.has_contents);
  EXPECT_THAT(recovered.damage, SizeIs(1));
  EXPECT_EQ(recovered.last_ids.sequence, opened.id);
}

// While sequences are told again, others run. So their changes may come before them.
TEST_F(JournalTest, ChangesMayComeBeforeTheirSequenceIsToldAgain) {
  Live();
  WorkerSequence opened = Open(4, Full());
  journal_->EndFile();
  journal_->BeginFile();
  ASSERT_TRUE(opened.Commit(4).ok());
  EXPECT_EQ(cache::Restoration(*harness_.coordinator).TellAgain(SequenceId(0), 10), std::nullopt);
  journal_->EndFile();
  ASSERT_THAT(Files(), SizeIs(1));
  EXPECT_THAT(Read().damage, IsEmpty());
  EXPECT_EQ(Found(Read()), Expected());
}

TEST_F(JournalTest, TheFolderBelongsToOneManager) {
  const auto second = StateDirectory::Open(path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat(getpid())));
}

}  // namespace
}  // namespace folio::manager
