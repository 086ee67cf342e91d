// JournalTest is a coordinator that tells a journal in a folder of the test, and a life for it to
// tell of.
#ifndef FOLIO_TESTS_MANAGER_JOURNAL_FIXTURE_H_
#define FOLIO_TESTS_MANAGER_JOURNAL_FIXTURE_H_

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "services/manager/journal/acknowledged.h"
#include "services/manager/manager_journal.h"
#include "services/manager/recovery.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"
#include "tests/common/temp_dir.h"
#include "tests/manager/both_journals.h"
#include "tests/manager/journal_bytes.h"
#include "tests/manager/pool_message.h"

namespace folio::manager {

// As a request's settings are, with nothing to protect.
inline policy::CacheConfig Full() { return cache::Cache(policy::FullSpec(), 0, 0, 0); }

class JournalTest : public ::testing::Test {
 protected:
  JournalTest() { Begin(); }

  // A journal of this test's folder, which the coordinator tells.
  void Begin(size_t least_file_bytes = ManagerJournal::kLeastFileBytes) {
    journal_.reset();
    auto directory = StateDirectory::Open(path());
    ASSERT_TRUE(directory.ok()) << directory.status();
    auto recovered = Recover(**directory);
    ASSERT_TRUE(recovered.ok()) << recovered.status();
    journal_ =
        std::make_unique<ManagerJournal>(*std::move(directory), *recovered, least_file_bytes);
    journal_->EndFile();
    journal_->OnPool(PoolMessage());
    both_ = std::make_unique<Both>(*journal_, harness_.journal);
    harness_.options.journal = both_.get();
    harness_.coordinator = std::make_unique<cache::Coordinator>(harness_.options);
    worker_ = harness_.coordinator->AddWorker("first");
  }
  std::string path() const { return dir_ / "state"; }
  std::vector<std::filesystem::path> Files() const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path())) {
      if (entry.path().filename().string().starts_with("journal-")) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  // As if no reply had left.
  void ForgetReplies() const { std::filesystem::remove(Acknowledged::FileOf(path())); }
  state::JournalPool PoolMessage() const { return folio::manager::PoolMessage(harness_.options); }
  // A life with an eviction, a park, an end and a worker that is lost.
  void Live() {
    cache::WorkerSequence evicts = Open(8, Cache(policy::StreamingLlmSpec(), 8, 4, 4));
    ASSERT_TRUE(evicts.Commit(8).ok());
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(evicts.Commit(1).ok());
    ASSERT_TRUE(evicts.Ack().ok());
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(evicts.Commit(1).ok());
    ASSERT_TRUE(evicts.plan.has_value());
    cache::WorkerSequence ends = Open(4, Full());
    ASSERT_TRUE(ends.Close().ok());
    cache::WorkerSequence parks = Open(10, Full());
    ASSERT_TRUE(parks.Commit(10).ok());
    ASSERT_TRUE(harness_.parking().Park(worker_, parks.id, parks.epoch, false).ok());
    const WorkerId lost = harness_.coordinator->AddWorker("lost");
    MustOpen(*harness_.coordinator, cache::Request(lost, 6, 4, Full()));
    harness_.coordinator->FenceWorker(lost, /*quiesced=*/false);
    journal_->files().Flush();
  }
  cache::WorkerSequence Open(uint32_t prompt, const policy::CacheConfig& cache) {
    cache::OpenRequest request = cache::Request(worker_, prompt, 20, cache);
    request.metadata = {.sampling = {.temperature = 0.5F, .seed = 11},
                        .label = "mine",
                        .resume_token = "secret",
                        .output = "metadata"};
    request.abilities.parks = true;
    request.tenant = "a";
    return MustOpen(*harness_.coordinator, request);
  }
  static policy::CacheConfig Cache(const policy::PolicySpec& spec, uint32_t budget, uint32_t sink,
                                   uint32_t recent) {
    return cache::Cache(spec, budget, sink, recent);
  }
  Recovered Read(absl::string_view boot = MachineBoot()) {
    journal_.reset();
    auto directory = StateDirectory::Open(path());
    EXPECT_TRUE(directory.ok()) << directory.status();
    auto recovered = Recover(**directory, boot);
    EXPECT_TRUE(recovered.ok()) << recovered.status();
    return recovered.ok() ? *std::move(recovered) : Recovered();
  }
  // The mirror's sequences, as messages.
  std::map<uint64_t, std::string> Expected() const {
    std::map<uint64_t, std::string> bytes;
    for (const auto& [id, saved] : harness_.journal.sequences()) bytes[id.value()] = Bytes(saved);
    return bytes;
  }
  static std::map<uint64_t, std::string> Found(const Recovered& recovered) {
    std::map<uint64_t, std::string> bytes;
    for (const auto& saved : recovered.cache.sequences) bytes[saved.id.value()] = Bytes(saved);
    return bytes;
  }

  folio::testing::TempDir dir_;
  cache::Harness harness_{{.pages = 64, .orphan_ttl = absl::Seconds(30)}};
  std::unique_ptr<ManagerJournal> journal_;
  std::unique_ptr<Both> both_;
  WorkerId worker_;
};

}  // namespace folio::manager

#endif  // FOLIO_TESTS_MANAGER_JOURNAL_FIXTURE_H_
