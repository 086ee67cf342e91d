// A worker's step of many sequences: the decisions that it brings are made side by side, and are
// those that each sequence would get alone.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSequences = 12;
constexpr uint32_t kPrompt = 40;
constexpr uint32_t kNew = 120;

// KVCrush ranks the tokens of each head again in decode, which is enough work to share out.
policy::CacheConfig CacheOf(uint32_t sequence) {
  switch (sequence % 4) {
    case 0:
      return Cache(policy::PagedEvictionSpec(), 24);
    case 1:
      return Cache(policy::StreamingLlmSpec(), 20);
    default:
      return Cache(policy::KvCrushSpec{policy::PagedEvictionSpec(), {.share = 0.25}}, 24);
  }
}

// One coordinator with its worker and sequences, whose scores depend on the seed alone.
struct Cell {
  Cell(uint32_t threads, uint32_t seed)
      : harness({.pages = 2000, .layers = 8, .kv_heads = 4, .decision_threads = threads}),
        random(seed) {
    for (uint32_t i = 0; i < kSequences; ++i) {
      sequences.push_back(
          MustOpen(*harness.coordinator, Request(worker, kPrompt + i, kNew, CacheOf(i))));
    }
  }

  void WriteScores(const WorkerSequence& sequence, uint32_t tokens) {
    for (size_t layer = 0; layer < sequence.tables.size(); ++layer) {
      for (uint32_t slot = sequence.resident[layer]; slot < sequence.resident[layer] + tokens;
           ++slot) {
        const PageRef page = sequence.tables[layer][slot / 4];
        float* row = &harness.board[page.page.value() * harness.geometry.scores_per_page() +
                                    size_t{slot % 4} * harness.geometry.num_kv_heads];
        // Few different scores, so that ties occur.
        for (uint32_t head = 0; head < 4; ++head) row[head] = static_cast<float>(random() % 50);
      }
    }
  }

  Harness harness;
  std::mt19937 random;
  WorkerId worker = harness.coordinator->AddWorker("w");
  std::vector<WorkerSequence> sequences;
};

// How many tokens a sequence commits in a step, or none while its compaction waits.
uint32_t TokensOf(const WorkerSequence& sequence) {
  if (sequence.logical < sequence.prompt) return sequence.prompt;
  return sequence.Room() > 0 ? 1 : 0;
}

TEST(CoordinatorStep, DecisionsAreThoseOfEachSequenceAlone) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Cell alone(0, seed);
  Cell together(3, seed);
  uint32_t plans = 0;
  for (uint32_t step = 0; step < 60; ++step) {
    std::vector<AckPlan> acks;
    std::vector<CommitTokens> commits;
    std::vector<WorkerSequence*> acked;
    std::vector<WorkerSequence*> committed;
    for (uint32_t i = 0; i < kSequences; ++i) {
      WorkerSequence& one = alone.sequences[i];
      WorkerSequence& same = together.sequences[i];
      ASSERT_EQ(one.plan, same.plan) << "sequence " << i << ", step " << step;
      plans += one.plan.has_value() ? 1 : 0;
      if (one.plan.has_value()) {
        ASSERT_TRUE(one.Ack().ok());
        acks.push_back({same.id, same.epoch, same.plan->epoch});
        acked.push_back(&same);
        continue;  // so that the sequences come apart
      }
      const uint32_t tokens = TokensOf(one);
      if (tokens == 0) continue;
      alone.WriteScores(one, tokens);
      together.WriteScores(same, tokens);
      ASSERT_TRUE(one.Commit(tokens).ok());
      commits.push_back(same.Next(tokens, 4));
      committed.push_back(&same);
    }
    const auto outcomes = together.harness.coordinator->Step(together.worker, acks, commits);
    ASSERT_EQ(outcomes.size(), acks.size() + commits.size());
    for (size_t i = 0; i < acks.size(); ++i) {
      ASSERT_TRUE(outcomes[i].ok()) << outcomes[i].status();
      acked[i]->Acknowledged(*outcomes[i]);
    }
    for (size_t i = 0; i < commits.size(); ++i) {
      const absl::StatusOr<Outcome>& outcome = outcomes[acks.size() + i];
      ASSERT_TRUE(outcome.ok()) << outcome.status();
      committed[i]->Committed(commits[i], *outcome);
    }
  }
  EXPECT_GT(plans, kSequences * 5);
  EXPECT_EQ(together.harness.inspector().CheckInvariants(), absl::OkStatus());
}

TEST(CoordinatorStep, AFailureStopsNoOtherSequence) {
  Cell cell(0, 1);
  std::vector<CommitTokens> commits;
  for (const WorkerSequence& sequence : cell.sequences) {
    commits.push_back(sequence.Next(sequence.prompt, 4));
  }
  commits[3].lease_epoch = LeaseEpoch(9);
  const AckPlan early = {cell.sequences[0].id, cell.sequences[0].epoch, PlanEpoch(1)};
  const auto outcomes = cell.harness.coordinator->Step(cell.worker, {early}, commits);
  ASSERT_EQ(outcomes.size(), kSequences + 1);
  // Acknowledgements come first, so the plan that the commit brings does not wait yet.
  EXPECT_THAT(std::string(outcomes[0].status().message()), HasSubstr("no plan waits"));
  EXPECT_THAT(std::string(outcomes[4].status().message()), HasSubstr("lease_epoch is 1, got 9"));
  for (uint32_t i = 0; i < kSequences; ++i) {
    if (i == 3) continue;
    ASSERT_TRUE(outcomes[i + 1].ok()) << outcomes[i + 1].status();
    EXPECT_EQ(outcomes[i + 1]->plan->sequence, cell.sequences[i].id);
  }
  EXPECT_EQ(cell.harness.inspector().CheckInvariants(), absl::OkStatus());
}

TEST(CoordinatorStep, AFencedWorkerIsToldSoForEachSequence) {
  Cell cell(0, 1);
  const std::vector<CommitTokens> commits = {cell.sequences[0].Next(kPrompt, 4),
                                             cell.sequences[1].Next(kPrompt, 4)};
  cell.harness.coordinator->FenceWorker(cell.worker, /*quiesced=*/false);
  const auto outcomes = cell.harness.coordinator->Step(cell.worker, {}, commits);
  ASSERT_EQ(outcomes.size(), 2U);
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("was fenced"));
  }
}

}  // namespace
}  // namespace folio::cache
