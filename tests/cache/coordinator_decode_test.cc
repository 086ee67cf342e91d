// Prompt chunks and decode without eviction: grants, records, and refusals that change nothing.
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DecodeTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }
  WorkerSequence Open(uint32_t prompt, uint32_t max_new) {
    return MustOpen(*harness_.coordinator, Request(worker_, prompt, max_new, FullCache()));
  }
  SequenceInfo Info() { return harness_.inspector().sequences().at(0); }

  Harness harness_;
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

TEST_F(DecodeTest, PromptComesInChunks) {
  WorkerSequence s = Open(10, 20);
  for (uint32_t chunk : {3, 0, 4}) {
    const absl::StatusOr<Outcome> outcome = s.Commit(chunk);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_THAT(outcome->granted, IsEmpty());
    EXPECT_EQ(Info().state, SequenceState::kPrefill);
  }
  EXPECT_EQ(Info().resident, TokenCount(7));
  ASSERT_TRUE(s.Commit(3).ok());
  EXPECT_EQ(Info().state, SequenceState::kDecode);
  EXPECT_EQ(Info().logical_length, TokenCount(10));
  EXPECT_EQ(Info().held_pages, PageCount(8));
}

TEST_F(DecodeTest, APageIsAlwaysAhead) {
  WorkerSequence s = Open(8, 30);
  EXPECT_EQ(s.tables[0].size(), 3U);
  ASSERT_TRUE(s.Commit(8).ok());
  // The prompt filled its pages: the newest page and one ahead.
  EXPECT_EQ(s.tables[0].size(), 4U);
  for (uint32_t length = 9; length <= 38; ++length) {
    ASSERT_TRUE(s.Commit(1).ok());
    ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
    const uint32_t expected = std::min(length / 4 + 2, 10U);  // 38 tokens need 10 pages
    ASSERT_EQ(s.tables[1].size(), expected) << "at length " << length;
  }
  EXPECT_EQ(harness_.inspector().pool().reserved, PageCount(0));
  const absl::StatusOr<SequenceDetail> detail = harness_.inspector().sequence(s.id);
  ASSERT_TRUE(detail.ok());
  EXPECT_EQ(detail->layers[0].pages, s.tables[0]);
  EXPECT_EQ(detail->layers[0].kept, (std::vector<PositionRange>{{Position(0), Position(38)}}));
  EXPECT_TRUE(s.Close().ok());
  EXPECT_EQ(harness_.inspector().pool().free, PageCount(64));
}

TEST_F(DecodeTest, SeveralTokensMayComeAtOnce) {
  WorkerSequence s = Open(6, 30);
  ASSERT_TRUE(s.Commit(6).ok());  // 3 pages: room for 6
  ASSERT_TRUE(s.Commit(6).ok());  // fills two pages; the newer one is named
  EXPECT_EQ(s.tables[0].size(), 5U);
  ASSERT_TRUE(s.Commit(3).ok());
  EXPECT_EQ(Info().resident, TokenCount(15));
}

TEST_F(DecodeTest, ARunningSequenceNeverMeetsAFullPool) {
  WorkerSequence s = Open(4, 60);
  // Fill all pages that were not promised.
  while (harness_.coordinator->Open(Request(worker_, 4, 1, FullCache())).ok()) {
  }
  ASSERT_TRUE(s.Commit(4).ok());
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(s.Commit(1).ok()) << i;
    ASSERT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus());
  }
}

TEST_F(DecodeTest, SampledTokensMayComeLater) {
  WorkerSequence s = Open(4, 8);
  CommitRequest prompt = s.Next(4, 4);
  prompt.sampled.clear();
  ASSERT_TRUE(s.Send(prompt).ok());
  CommitRequest sampled = s.Next(0, 4);
  ASSERT_EQ(sampled.sampled.size(), 1U);
  ASSERT_TRUE(s.Send(sampled).ok());
  ASSERT_TRUE(s.Commit(1).ok());
}

struct BadCommit {
  const char* name;
  uint32_t committed;  // of a prompt of 6 and 5 more
  std::function<void(CommitRequest&, const WorkerSequence&)> break_it;
  absl::StatusCode code;
  const char* words;
};

class BadCommitTest : public ::testing::TestWithParam<BadCommit> {};

TEST_P(BadCommitTest, IsRefusedAndChangesNothing) {
  Harness harness;
  const WorkerId worker = harness.coordinator->AddWorker("w");
  ASSERT_EQ(harness.coordinator->AddWorker("other"), WorkerId(2));
  WorkerSequence s = MustOpen(*harness.coordinator, Request(worker, 6, 5, FullCache()));
  ASSERT_EQ(s.id, SequenceId(1));
  while (s.logical < GetParam().committed) {
    ASSERT_TRUE(s.Commit(std::min(6U, GetParam().committed - s.logical)).ok());
  }
  CommitRequest commit = s.Next(1, 4);
  GetParam().break_it(commit, s);
  const Snapshot before = Look(*harness.coordinator);
  const absl::Status status = Commit(*harness.coordinator, commit).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().words));
  EXPECT_EQ(Look(*harness.coordinator), before);
  EXPECT_EQ(harness.inspector().CheckInvariants(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadCommitTest,
    ::testing::Values(
        BadCommit{"UnknownSequence", 6,
                  [](CommitRequest& c, const WorkerSequence&) { c.sequence = SequenceId(44); },
                  absl::StatusCode::kNotFound, "sequence 44 is not open"},
        BadCommit{"WrongWorker", 6,
                  [](CommitRequest& c, const WorkerSequence&) { c.worker = WorkerId(2); }, kRefused,
                  "worker 1 holds its lease, got 2"},
        BadCommit{"UnknownWorker", 6,
                  [](CommitRequest& c, const WorkerSequence&) { c.worker = WorkerId(9); }, kRefused,
                  "worker 1 holds its lease, got 9"},
        BadCommit{"StaleLease", 6,
                  [](CommitRequest& c, const WorkerSequence&) { c.lease_epoch = LeaseEpoch(0); },
                  kRefused, "lease_epoch is 1, got 0"},
        BadCommit{"Backwards", 6,
                  [](CommitRequest& c, const WorkerSequence&) { c.logical_length = TokenCount(5); },
                  kRefused, "logical_length 5 goes backwards from 6"},
        BadCommit{"PromptIntoDecode", 3,
                  [](CommitRequest& c, const WorkerSequence&) { c.logical_length = TokenCount(7); },
                  kRefused, "runs past the prompt's end at 6"},
        BadCommit{"FilledInPrompt", 3,
                  [](CommitRequest& c, const WorkerSequence& s) {
                    c.filled = {s.tables[0][0], s.tables[1][0]};
                  },
                  kRefused, "filled pages are for decode"},
        BadCommit{"SampledInPrompt", 3,
                  [](CommitRequest& c, const WorkerSequence&) { c.sampled = {TokenId(1)}; },
                  kRefused, "sampled tokens before the prompt's end"},
        BadCommit{
            "PastThePages", 6,
            [](CommitRequest& c, const WorkerSequence&) { c.logical_length = TokenCount(13); },
            kRefused, "exceeds prompt and max_new_tokens, 11"},
        BadCommit{"FilledMissing", 7,
                  [](CommitRequest& c, const WorkerSequence&) { c.filled.clear(); }, kRefused,
                  "filled must name page 1 generation 1, got 0 pages"},
        BadCommit{"FilledOfOneLayer", 7,
                  [](CommitRequest& c, const WorkerSequence&) { c.filled.pop_back(); }, kRefused,
                  "filled must name page 4 generation 1, got 1 pages"},
        BadCommit{"FilledTooEarly", 6,
                  [](CommitRequest& c, const WorkerSequence& s) {
                    c.filled = {s.tables[0][1], s.tables[1][1]};
                  },
                  kRefused, "filled names 2 pages, but 0 became full"},
        BadCommit{"FilledOtherPage", 7,
                  [](CommitRequest& c, const WorkerSequence& s) { c.filled[1] = s.tables[1][0]; },
                  kRefused, "filled of layer 1 must be page"},
        BadCommit{
            "FilledStaleGeneration", 7,
            [](CommitRequest& c, const WorkerSequence&) { c.filled[0].generation = Generation(0); },
            kRefused, "generation 0"},
        BadCommit{"TooManySampled", 6,
                  [](CommitRequest& c, const WorkerSequence&) { c.sampled.assign(3, TokenId(1)); },
                  kRefused, "bring the record to 10 ids; logical_length 7 needs 7 or 8"},
        BadCommit{"TokenOutOfNowhere", 9,
                  [](CommitRequest& c, const WorkerSequence&) {
                    c.logical_length = TokenCount(11);
                    c.sampled.clear();
                  },
                  kRefused, "bring the record to 10 ids"}),
    [](const auto& info) { return info.param.name; });

TEST_F(DecodeTest, RefusesTokensBeyondItsPages) {
  WorkerSequence s = Open(6, 30);
  ASSERT_TRUE(s.Commit(6).ok());
  EXPECT_EQ(s.Room(), 6U);
  CommitRequest commit = s.Next(6, 4);
  commit.logical_length = TokenCount(13);
  const absl::Status status = Commit(*harness_.coordinator, commit).status();
  EXPECT_EQ(status.code(), kRefused);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("needs room for 7 more tokens; the pages held have room for 6"));
}

TEST_F(DecodeTest, CloseGivesPagesBackOnce) {
  WorkerSequence s = Open(6, 30);
  ASSERT_TRUE(s.Commit(6).ok());
  EXPECT_EQ(harness_.coordinator->Close(WorkerId(7), s.id, s.epoch).code(), kRefused);
  EXPECT_EQ(harness_.coordinator->Close(worker_, s.id, LeaseEpoch(8)).code(), kRefused);
  EXPECT_EQ(harness_.inspector().pool().sequences, 1U);
  EXPECT_TRUE(s.Close().ok());
  EXPECT_EQ(s.Close().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(harness_.inspector().sequence(s.id).status().code(), absl::StatusCode::kNotFound);
  const PoolInfo pool = harness_.inspector().pool();
  EXPECT_EQ(pool.free, pool.total);
  EXPECT_EQ(pool.reserved, PageCount(0));
}

}  // namespace
}  // namespace folio::cache
