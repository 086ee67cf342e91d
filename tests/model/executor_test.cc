// The executor's interface: tables, sampling, scores, refusals, misuse.
#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/executor_harness.h"
#include "tests/model/swap_script.h"

namespace folio::model::testing {
namespace {

using ::testing::HasSubstr;

StepSegment Greedy(SequenceSlot slot, const Tokens& tokens, uint32_t position, bool prompt) {
  StepSegment segment;
  segment.slot = slot;
  segment.prompt = prompt;
  for (const uint32_t token : tokens) segment.tokens.emplace_back(token);
  segment.first_position = Position(position);
  segment.want_output = true;
  return segment;
}

class ExecutorTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ExecutorTest, TablesAndLengths) {
  ExecutorHarness harness(GetParam());
  Executor& executor = harness.executor();
  EXPECT_EQ(executor.pipeline_depth(), 0);
  EXPECT_EQ(executor.max_rows(), 256u);
  const SequenceSlot slot = executor.tables().Acquire(kernels::ScoreKind::kNone);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 0u);
  const auto pages = harness.pool().Take(3);
  executor.tables().Extend(slot, pages);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 48u);
  harness.Run({Greedy(slot, RandomTokens(16, 101, 1), 0, true)});
  EXPECT_EQ(executor.tables().at(slot).NewestPage(LayerIndex(1)), pages[1][0]);
  harness.Run({Greedy(slot, {}, 16, false)});
  EXPECT_EQ(executor.tables().at(slot).NewestPage(LayerIndex(0)), pages[0][1]);
  EXPECT_EQ(executor.tables().at(slot).NewestPage(LayerIndex(1)), pages[1][1]);
  EXPECT_EQ(executor.tables().at(slot).resident(LayerIndex(0)), 17u);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 31u);
  // Pages of the other layer may go on alone; the fullest layer counts.
  auto one_sided = harness.pool().Take(1);
  one_sided[1].clear();
  executor.tables().Extend(slot, one_sided);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 31u);
  executor.tables().Release(slot);
  EXPECT_EQ(executor.tables().Acquire(kernels::ScoreKind::kNone), slot);
  EXPECT_EQ(executor.tables().at(slot).free_tokens(), 0u);
}

TEST_P(ExecutorTest, FeedsWhatItSampled) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(9, 101, 2);
  const SequenceSlot slot = harness.Open(40);
  const SequenceSlot twin = harness.Open(40);
  uint32_t token = harness.Run({Greedy(slot, prompt, 0, true)}).at(0).token.value();
  harness.Run({Greedy(twin, prompt, 0, true)});
  for (uint32_t position = 9; position < 30; ++position) {
    const auto outputs =
        harness.Run({Greedy(slot, {token}, position, false), Greedy(twin, {}, position, false)});
    ASSERT_EQ(outputs.size(), 2u);
    EXPECT_EQ(outputs[0].token, outputs[1].token);
    token = outputs[0].token.value();
  }
}

TEST_P(ExecutorTest, SwappedPagesAreTheSame) {
  for (const auto score : {kernels::ScoreKind::kNormRatio, kernels::ScoreKind::kValueNorm}) {
    ExecutorHarness harness(GetParam());
    EXPECT_EQ(PlaySwap(harness.executor(), harness.pool(), harness.pool().view(), score), "");
  }
}

TEST_P(ExecutorTest, TargetIsTakenInsteadOfASample) {
  ExecutorHarness harness(GetParam());
  const SequenceSlot slot = harness.Open(40);
  StepSegment segment = harness.Prompt(slot, RandomTokens(5, 101, 3), 0);
  segment.target = TokenId(42);
  const SegmentOutput output = harness.Run({segment}).at(0);
  EXPECT_EQ(output.token, TokenId(42));
  EXPECT_EQ(output.logprob, ByToken(output)[42]);
  // And is what the next step feeds.
  const SequenceSlot twin = harness.Open(40);
  harness.Run({segment = harness.Prompt(twin, RandomTokens(5, 101, 3), 0)});
  StepSegment implied = harness.Prompt(slot, {}, 5);
  implied.prompt = false;
  const auto outputs = harness.Run({implied, harness.Decode(twin, 42, 5)});
  EXPECT_EQ(ByToken(outputs[0]), ByToken(outputs[1]));
}

TEST_P(ExecutorTest, LogprobsAreADistributionAndOnlyOnRequest) {
  ExecutorHarness harness(GetParam());
  StepSegment segment = harness.Prompt(harness.Open(40), RandomTokens(5, 101, 4), 0);
  const SegmentOutput all = harness.Run({segment}).at(0);
  ASSERT_EQ(all.top.size(), 101u);
  double sum = 0;
  for (const auto& [token, logprob] : all.top) sum += std::exp(logprob);
  EXPECT_NEAR(sum, 1, 1e-4);
  EXPECT_EQ(all.token, all.top[0].first);
  EXPECT_EQ(all.logprob, all.top[0].second);
  segment.slot = harness.Open(40);
  segment.top_logprobs = 2;
  EXPECT_EQ(harness.Run({segment}).at(0).top.size(), 2u);
  segment.slot = harness.Open(40);
  segment.top_logprobs = -1;
  EXPECT_TRUE(harness.Run({segment}).at(0).top.empty());
}

// A seeded sample is of the position, whatever else is in the batch.
TEST_P(ExecutorTest, SamplesAreTheSameInCompany) {
  ExecutorHarness harness(GetParam());
  const Tokens prompt = RandomTokens(5, 101, 5);
  StepSegment segment = Greedy(harness.Open(40), prompt, 0, true);
  segment.sampling.temperature = 1.5f;
  segment.sampling.seed = 99;
  const TokenId alone = harness.Run({segment}).at(0).token;
  std::vector<StepSegment> batch;
  batch.reserve(6);
  for (int i = 0; i < 5; ++i) {
    batch.push_back(Greedy(harness.Open(40), RandomTokens(5, 101, 60 + i), 0, true));
  }
  segment.slot = harness.Open(40);
  batch.push_back(segment);
  EXPECT_EQ(harness.Run(batch).at(5).token, alone);
}

// K, V and scores go to the sequence's own slots and nowhere else; scores are of the stored values.
TEST_P(ExecutorTest, WritesItsOwnSlotsOnly) {
  ExecutorHarness harness(GetParam());
  const kernels::PoolView& view = harness.pool().view();
  const std::vector<std::byte> before(view.pages,
                                      view.pages + view.num_pages * view.geometry.page_bytes());
  const SequenceSlot slot = harness.executor().tables().Acquire(kernels::ScoreKind::kNormRatio);
  const auto pages = harness.pool().Take(2);
  harness.executor().tables().Extend(slot, pages);
  harness.Run({Greedy(slot, RandomTokens(21, 101, 6), 0, true)});
  std::vector<int> used(view.num_pages, 0);  // tokens
  for (const auto& layer : pages) {
    used[layer[0].page.value()] = 16;
    used[layer[1].page.value()] = 5;
  }
  const uint32_t dim = view.geometry.head_dim;
  for (uint32_t page = 0; page < view.num_pages; ++page) {
    for (uint32_t token = 0; token < 16; ++token) {
      for (uint32_t head = 0; head < view.geometry.num_kv_heads; ++head) {
        const size_t place = (size_t{head} * 16 + token) * dim;
        double k = 0;
        double v = 0;
        for (uint32_t i = 0; i < dim; ++i) {
          k += std::pow(view.keys(page)[place + i].ToFloat(), 2);
          v += std::pow(view.values(page)[place + i].ToFloat(), 2);
        }
        const float score = view.page_scores(page)[token * view.geometry.num_kv_heads + head];
        if (static_cast<int>(token) < used[page]) {
          EXPECT_NEAR(score, std::sqrt(v / k), 1e-5 * std::sqrt(v / k));
        } else {
          EXPECT_TRUE(std::isnan(score) && std::isnan(k) && std::isnan(v));
        }
      }
    }
    if (used[page] == 0) {
      const size_t bytes = view.geometry.page_bytes();
      EXPECT_EQ(std::memcmp(before.data() + page * bytes, view.pages + page * bytes, bytes), 0);
    }
  }
}

TEST_P(ExecutorTest, TellsWhereTimeWent) {
  ExecutorHarness harness(GetParam());
  const SequenceSlot slot = harness.Open(200);
  harness.Run({Greedy(slot, RandomTokens(150, 101, 7), 0, true)});
  std::vector<std::vector<TokenSlot>> keep(2);
  for (auto& layer : keep) {
    for (uint32_t i = 0; i < 32; ++i) layer.emplace_back(3 * i);
  }
  harness.executor().Compact(slot, {keep, {PageCount(0), PageCount(0)}});
  const ExecutorTimes times = harness.executor().times();
  for (const double part : {times.attention, times.linear, times.append_score, times.compact,
                            times.sample, times.other}) {
    EXPECT_GT(part, 0);
    EXPECT_LT(part, 10);
  }
}

TEST_P(ExecutorTest, AnEmptyStepIsNoStep) {
  ExecutorHarness harness(GetParam());
  EXPECT_TRUE(harness.Run({}).empty());
}

TEST_P(ExecutorTest, ALogitThatIsNotFiniteFailsItsSegment) {
  RandomModel model(TinyConfig(), 1);
  // Finite weights whose products are not.
  model.SetMatrix(Role::kOutput, 0,
                  std::vector<kernels::bf16>(size_t{101} * 40, kernels::bf16::Round(3e38f)));
  TestPool pool(model.config(), 10);
  const auto executor = *MakeCpuExecutor(model, OpsNamed(GetParam()), 1, pool.view());
  const SequenceSlot slot = executor->tables().Acquire(kernels::ScoreKind::kNone);
  executor->tables().Extend(slot, pool.Take(1));
  StepBatch batch;
  batch.segments = {Greedy(slot, {1, 2, 3}, 0, true)};
  const StepOutput output = executor->Collect(executor->Enqueue(batch));
  EXPECT_TRUE(output.status.ok()) << output.status;
  const absl::Status& failed = output.outputs.at(0).status;
  EXPECT_EQ(failed.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("at position 2,"));
}

using ExecutorDeathTest = ExecutorTest;

// One thread: the process forks.
TEST_P(ExecutorDeathTest, MisuseIsCaught) {
  ExecutorHarness harness(GetParam(), TinyConfig(), 1);
  Executor& executor = harness.executor();
  const SequenceSlot slot = harness.Open(32);
  const auto run = [&](std::vector<StepSegment> segments) { harness.Run(std::move(segments)); };
  EXPECT_DEATH(run({Greedy(SequenceSlot(7), {1}, 0, true)}), "check failed");  // no such slot
  EXPECT_DEATH(run({Greedy(slot, {1, 2}, 0, false)}), "check failed");         // two decode rows
  EXPECT_DEATH(run({Greedy(slot, {}, 0, false)}), "check failed");             // nothing sampled
  EXPECT_DEATH(run({Greedy(slot, {101}, 0, true)}), "check failed");           // vocabulary
  EXPECT_DEATH(run({Greedy(slot, Tokens(33, 1), 0, true)}), "check failed");   // no room
  EXPECT_DEATH(run({Greedy(slot, {1}, 600, false)}), "check failed");          // context
  EXPECT_DEATH(run({Greedy(slot, {1}, 0, true), Greedy(slot, {1}, 1, true)}), "check failed");
  const SequenceSlot large = harness.Open(300);
  EXPECT_DEATH(run({Greedy(large, Tokens(257, 1), 0, true)}), "check failed");  // max_rows
  EXPECT_DEATH(executor.tables().DropBlocks(slot, {{BlockIndex(0), BlockIndex(0)}}),
               "check failed");
  EXPECT_DEATH(executor.tables().at(slot).NewestPage(LayerIndex(0)), "check failed");
  EXPECT_DEATH(executor.tables().Extend(slot, {{PageRef{PageId(400), Generation(1)}}, {}}),
               "check failed");
  EXPECT_DEATH(executor.tables().Release(SequenceSlot(9)), "check failed");
  EXPECT_DEATH(executor.Collect(StepTicket(1)), "check failed");
  run({Greedy(slot, Tokens(20, 1), 0, true)});
  const std::vector<PageCount> none(2);
  const std::vector<std::vector<TokenSlot>> descending(2, {TokenSlot(4), TokenSlot(2)});
  EXPECT_DEATH(executor.Compact(slot, {descending, none}), "check failed");
  const std::vector<std::vector<TokenSlot>> beyond(2, {TokenSlot(20)});
  EXPECT_DEATH(executor.Compact(slot, {beyond, none}), "check failed");
  const std::vector<std::vector<TokenSlot>> one(2, {TokenSlot(1)});
  EXPECT_DEATH(executor.Compact(slot, {one, {PageCount(0), PageCount(2)}}),
               "check failed");  // spare
}

INSTANTIATE_TEST_SUITE_P(Families, ExecutorTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Families, ExecutorDeathTest, ::testing::ValuesIn(OpsNames()),
                         [](const auto& info) { return info.param; });

std::string Refusal(const ModelSource& model, int threads, const kernels::PoolView& pool,
                    uint32_t max_rows = 8) {
  CpuExecutorOptions options;
  options.max_rows = max_rows;
  const auto made = MakeCpuExecutor(model, kernels::cpu::MakePlainOps(), threads, pool, options);
  return std::string(made.status().message());
}

TEST(MakeCpuExecutor, NamesWhatDoesNotFit) {
  const RandomModel model(TinyConfig(), 1);
  TestPool pool(model.config(), 4);
  kernels::PoolView view = pool.view();
  EXPECT_EQ(Refusal(model, 1, view), "");
  EXPECT_THAT(Refusal(model, 0, view), HasSubstr("threads"));
  EXPECT_THAT(Refusal(model, 1, view, 0), HasSubstr("max_rows"));
  view.geometry.num_layers = 3;
  EXPECT_EQ(Refusal(model, 1, view), "the pool's num_layers is 3, the model's is 2");
  view = pool.view();
  view.geometry.num_kv_heads = 4;
  EXPECT_THAT(Refusal(model, 1, view), HasSubstr("num_kv_heads is 4"));
  view = pool.view();
  view.geometry.head_dim = 8;
  EXPECT_THAT(Refusal(model, 1, view), HasSubstr("head_dim is 8"));
}

TEST(LoadWeights, NamesATensorOfTheWrongSize) {
  RandomModel model(TinyConfig(), 1);
  model.SetMatrix(Role::kDown, 1, std::vector<kernels::bf16>(7));
  const TestPool pool(model.config(), 4);
  EXPECT_EQ(Refusal(model, 1, pool.view()),
            "the down matrix of layer 1 has 7 elements, the configuration wants 2080");
}

TEST(LoadWeights, ReportsProgressAndSize) {
  const RandomModel model(TinyConfig(), 1);
  kernels::ThreadPool threads(2);
  std::vector<int> percents;
  const auto weights = *LoadWeights(model, *kernels::cpu::MakePlainOps(), threads,
                                    [&](int percent) { percents.push_back(percent); });
  EXPECT_THAT(percents, ::testing::ElementsAre(33, 66, 100));
  const size_t layer = size_t{40} * ((6 + 2 + 2) * 24 + 144 + 3 * 52);
  EXPECT_EQ(weights->bytes(), 2 * (2 * layer + size_t{2} * 101 * 40) + size_t{4} * 5 * 40);
}

}  // namespace
}  // namespace folio::model::testing
