// Budgets that differ between layers, and what a policy would do now.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace folio::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two layers of pages of four tokens; sink and recent one page each.
class LayersTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(harness_.inspector().CheckInvariants(), absl::OkStatus()); }

  WorkerSequence Open(uint32_t prompt, uint32_t max_new, const policy::CacheConfig& cache) {
    return MustOpen(*harness_.coordinator, Request(worker_, prompt, max_new, cache));
  }
  static policy::CacheConfig Uneven(policy::PolicySpec policy, uint32_t first, uint32_t second) {
    policy::CacheConfig cache = Cache(policy, std::max(first, second));
    cache.layer_budgets = {TokenCount(first), TokenCount(second)};
    return cache;
  }
  std::vector<PositionRange> Kept(const WorkerSequence& s, size_t layer) {
    return harness_.inspector().sequence(s.id)->layers[layer].kept;
  }
  static PositionRange Range(uint32_t begin, uint32_t end) {
    return {Position(begin), Position(end)};
  }

  Harness harness_;
  WorkerId worker_ = harness_.coordinator->AddWorker("w");
};

// A prompt of 18: layer 0 holds 12 of them, layer 1 all. From then on layer 0 fills a page with
// tokens 22, 26, ... and layer 1 with tokens 20, 24, ...
TEST_F(LayersTest, EachLayerCompactsFillsAndDropsByItself) {
  WorkerSequence s = Open(18, 30, Uneven(policy::StreamingLlmSpec(), 12, 24));
  absl::StatusOr<Outcome> outcome = s.Commit(18);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto& compact = std::get<CompactAction>(outcome->plan->action);
  EXPECT_EQ(compact.keep[0].size(), 12U);
  EXPECT_EQ(compact.keep[1].size(), 18U);
  EXPECT_THAT(compact.spare, ElementsAre(PageCount(2), PageCount(1)));
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4), Range(10, 18)));
  EXPECT_THAT(Kept(s, 1), ElementsAre(Range(0, 18)));

  // Two more: layer 1's page is full, and within its budget.
  CommitRequest two = s.Next(2, 4);
  EXPECT_THAT(two.filled, ElementsAre(s.tables[1][4]));
  outcome = s.Send(two);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_FALSE(outcome->plan.has_value());
  // Two more: layer 0's page is full, 16 tokens over a budget of 12.
  two = s.Next(2, 4);
  EXPECT_THAT(two.filled, ElementsAre(s.tables[0][3]));
  outcome = s.Send(two);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  const auto& drop = std::get<DropAction>(outcome->plan->action);
  EXPECT_EQ(drop.block[0], BlockIndex(1));
  EXPECT_EQ(drop.block[1], std::nullopt);
  ASSERT_TRUE(s.Ack().ok());
  EXPECT_THAT(Kept(s, 0), ElementsAre(Range(0, 4), Range(14, 22)));
  EXPECT_THAT(Kept(s, 1), ElementsAre(Range(0, 22)));
  const SequenceInfo info = harness_.inspector().sequences().at(0);
  EXPECT_EQ(info.resident, TokenCount(22));
  EXPECT_EQ(info.evicted_tokens, TokenCount(10));
  EXPECT_EQ(info.evicted_pages, PageCount(2));  // one by the compaction, one dropped
}

TEST_F(LayersTest, AdmissionCountsEachLayer) {
  // 5 pages of layer 0 (3 and 2 over), 8 of layer 1.
  WorkerSequence s = Open(4, 100, Uneven(policy::StreamingLlmSpec(), 12, 24));
  const PoolInfo pool = harness_.inspector().pool();
  EXPECT_EQ(pool.held.value() + pool.reserved.value(), 13U);
}

TEST_F(LayersTest, FilledMustNameTheLayersThatFill) {
  WorkerSequence s = Open(18, 30, Uneven(policy::StreamingLlmSpec(), 12, 24));
  ASSERT_TRUE(s.Commit(18).ok());
  ASSERT_TRUE(s.Ack().ok());
  CommitRequest both = s.Next(2, 4);
  both.filled = {s.tables[0][3], s.tables[1][4]};
  EXPECT_THAT(std::string(Commit(*harness_.coordinator, both).status().message()),
              HasSubstr("filled of layer 1 must be"));
  CommitRequest none = s.Next(2, 4);
  none.filled.clear();
  EXPECT_THAT(std::string(Commit(*harness_.coordinator, none).status().message()),
              HasSubstr("a page became full in layer 1"));
  CommitRequest more = s.Next(2, 4);
  more.filled.push_back(more.filled[0]);
  EXPECT_THAT(std::string(Commit(*harness_.coordinator, more).status().message()),
              HasSubstr("filled names 2 pages, but 1 became full"));
}

// The sinks reach into the last block of the prompt that protect_ends holds, so no block may go.
TEST_F(LayersTest, ADryRunWithoutAnythingToDropSaysSo) {
  for (const policy::PolicySpec& policy : {policy::PolicySpec(policy::PagedEvictionSpec()),
                                           policy::PolicySpec(policy::StreamingLlmSpec())}) {
    policy::CacheConfig cache = Cache(policy, 32);
    cache.sink = TokenCount(8);
    cache.recent = TokenCount(0);
    cache.shares.ends = 0.1F;
    WorkerSequence s = Open(12, 30, cache);
    ASSERT_TRUE(s.Commit(12).ok());
    const auto explained = harness_.inspector().Explain(s.id, std::nullopt);
    ASSERT_TRUE(explained.ok()) << explained.status();
    for (const ExplainedLayer& layer : explained->layers) EXPECT_EQ(layer.block, std::nullopt);
    ASSERT_TRUE(s.Close().ok());
  }
}

class ExplainTest : public LayersTest {
 protected:
  // 20 tokens resident of which 12 may be, the score of a token being its position, but 0 of
  // positions 8 to 11.
  WorkerSequence Scored() {
    WorkerSequence s = Open(12, 30, Cache(policy::PagedEvictionSpec(), 32));
    for (uint32_t slot = 0; slot < 20; ++slot) {
      while (s.tables[0].size() <= slot / 4) FOLIO_CHECK(s.Commit(s.logical < 12 ? 12 : 1).ok());
      for (const PageList& table : s.tables) {
        harness_.Score(table[slot / 4], slot % 4, slot / 4 == 2 ? 0 : static_cast<float>(slot));
      }
    }
    while (s.logical < 20) FOLIO_CHECK(s.Commit(1).ok());
    return s;
  }
};

TEST_F(ExplainTest, TheNextPageOfItsOwnPolicyChangingNothing) {
  WorkerSequence s = Scored();
  const Snapshot before = Look(*harness_.coordinator);
  const auto explained = harness_.inspector().Explain(s.id, std::nullopt);
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_FALSE(explained->due);
  EXPECT_EQ(explained->layers[1].budget, TokenCount(32));
  EXPECT_EQ(explained->layers[1].resident, TokenCount(20));
  EXPECT_EQ(explained->layers[1].block, BlockIndex(2));
  EXPECT_THAT(explained->layers[1].scores, ElementsAre(1.5F, 5.5F, 0, 13.5F, 17.5F));
  EXPECT_THAT(explained->layers[1].drop, IsEmpty());
  EXPECT_EQ(Look(*harness_.coordinator), before);
}

TEST_F(ExplainTest, TokensUnderATighterBudget) {
  WorkerSequence s = Scored();
  const auto explained = harness_.inspector().Explain(s.id, Cache(policy::PagedEvictionSpec(), 12));
  ASSERT_TRUE(explained.ok()) << explained.status();
  EXPECT_TRUE(explained->due);
  EXPECT_THAT(explained->layers[0].drop, ElementsAre(Range(4, 12)));
  EXPECT_EQ(explained->layers[0].scores.size(), 20U);
  EXPECT_EQ(explained->layers[0].block, std::nullopt);
}

TEST_F(ExplainTest, OtherPoliciesThatTheBoardServes) {
  WorkerSequence s = Scored();
  const auto streaming = harness_.inspector().Explain(s.id, Cache(policy::StreamingLlmSpec(), 16));
  ASSERT_TRUE(streaming.ok()) << streaming.status();
  EXPECT_TRUE(streaming->due);
  EXPECT_EQ(streaming->layers[0].block, BlockIndex(1));
  EXPECT_THAT(streaming->layers[0].scores, IsEmpty());
  const auto full = harness_.inspector().Explain(s.id, FullCache());
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_FALSE(full->due);
  EXPECT_EQ(full->layers[0].block, std::nullopt);
}

// The newest page is not full: its rows are what the page's last owner left there.
TEST_F(ExplainTest, ReadsNoRowBeforeItsPageFills) {
  WorkerSequence s = Open(12, 30, Cache(policy::QueryDiffSpec{{0.5F, 1, 1}}, 32));
  FOLIO_CHECK(s.Commit(12).ok());
  while (s.logical < 19) FOLIO_CHECK(s.Commit(1).ok());
  for (const PageList& table : s.tables) {
    for (uint32_t offset = 0; offset < 4; ++offset) harness_.Score(table[4], offset, -1000);
  }
  const auto explained =
      harness_.inspector().Explain(s.id, Cache(policy::QueryDiffSpec{{0.5F, 1, 1}}, 8, 0, 0));
  ASSERT_TRUE(explained.ok()) << explained.status();
  const std::vector<float>& scores = explained->layers[0].scores;
  ASSERT_EQ(scores.size(), 19U);
  for (uint32_t slot = 0; slot < 16; ++slot) EXPECT_EQ(scores[slot], 0);
  for (uint32_t slot = 16; slot < 19; ++slot) EXPECT_EQ(scores[slot], HUGE_VALF);
}

TEST_F(ExplainTest, RefusesWhatItCannotKnow) {
  WorkerSequence s = Scored();
  const auto refused = [&](SequenceId id, const policy::CacheConfig& cache) {
    return harness_.inspector().Explain(id, cache).status();
  };
  EXPECT_EQ(refused(SequenceId(99), FullCache()).code(), absl::StatusCode::kNotFound);
  const absl::Status other = refused(s.id, Cache(policy::KeyDiffSpec(), 16));
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(other.message()),
      HasSubstr("writes the scores of policy paged_eviction, which policy key_diff does not"));
  EXPECT_EQ(refused(s.id, Cache(policy::PagedEvictionSpec(), 10)).code(),
            absl::StatusCode::kInvalidArgument);
  WorkerSequence young = Open(12, 30, FullCache());
  EXPECT_THAT(std::string(refused(young.id, FullCache()).message()), HasSubstr("in prefill"));
}

}  // namespace
}  // namespace folio::cache
