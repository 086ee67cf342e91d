// Tensor parallelism on tiny models: a group gives what one executor gives.
#include <signal.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/base/steady_time.h"
#include "services/model/tp/rank_command.h"
#include "tests/model/conversation.h"
#include "tests/model/swap_script.h"

namespace folio::model::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Case {
  std::string name;
  RanksAre kind;
  uint32_t ranks;
  uint32_t heads, kv_heads;
  bool tied = false;
  std::string ops = "plain";
  std::string family = "llama";
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class TpExecutorTest : public ::testing::TestWithParam<Case> {};

TEST_P(TpExecutorTest, SaysWhatOneExecutorSays) {
  const Case& c = GetParam();
  ModelConfig config = OfFamily(c.family);
  config.heads = c.heads;
  config.kv_heads = c.kv_heads;
  config.tied_embeddings = c.tied;
  const RandomModel model(config, 1234);
  const GroupSetup setup = {.model = model, .ops = c.ops, .ranks = c.ranks, .kind = c.kind};
  const bool plain = c.ops == "plain";
  Transcript alone;
  ASSERT_EQ(RunAlone(setup, [&](Stage& stage) { return Play(stage, config, !plain, alone); }), "");
  const auto said = RunGroup(setup, [&](Stage& stage) {
    Transcript together;
    std::string wrong = Play(stage, config, !plain, together);
    if (!wrong.empty()) return wrong;
    // bfloat16 activations are rounded where partial sums begin and end.
    return Compare(alone, together,
                   plain ? Nearness{0.01f, 0.02f, true} : Nearness{0.4f, 0.5f, false});
  });
  for (uint32_t rank = 0; rank < c.ranks; ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
}

// Each rank has swap memory of its own, and its columns of the board in it. With four ranks two of
// them have the same KV head, whose scores one of them writes.
TEST(TpExecutorSwap, EachRankSwapsItsPart) {
  for (const uint32_t ranks : {2U, 4U}) {
    const RandomModel model(TinyConfig(), 1234);
    const auto said = RunGroup({.model = model, .ranks = ranks}, [](Stage& stage) {
      return PlaySwap(stage.executor, stage.pages, stage.board, kernels::ScoreKind::kNormRatio);
    });
    for (uint32_t rank = 0; rank < ranks; ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  }
}

constexpr auto kThreads = RanksAre::kThreads;
constexpr auto kProcesses = RanksAre::kProcesses;
INSTANTIATE_TEST_SUITE_P(
    Groups, TpExecutorTest,
    ::testing::Values(Case{"TwoThreads", kThreads, 2, 6, 2}, Case{"FourThreads", kThreads, 4, 6, 2},
                      Case{"TwoProcesses", kProcesses, 2, 6, 2},
                      Case{"FourProcesses", kProcesses, 4, 6, 2},
                      Case{"ThreeThreadsUneven", kThreads, 3, 6, 2},
                      Case{"FourProcessesOfThreeKvHeads", kProcesses, 4, 9, 3},
                      Case{"TwoProcessesOfThreeKvHeads", kProcesses, 2, 9, 3},
                      Case{"FourThreadsOneKvHeadTied", kThreads, 4, 4, 1, true},
                      Case{"FourThreadsOneHeadEach", kThreads, 4, 4, 4, true}),
    [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Fast, TpExecutorTest,
                         ::testing::Values(Case{"Two", kThreads, 2, 6, 2, true, "auto"},
                                           Case{"Four", kThreads, 4, 6, 2, false, "auto"}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Biases, TpExecutorTest,
                         ::testing::Values(Case{"Two", kThreads, 2, 6, 2, true, "plain", "qwen2"},
                                           Case{"FourThatShareHeads", kThreads, 4, 6, 2, false,
                                                "plain", "qwen2"}),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(HeadNorms, TpExecutorTest,
                         ::testing::Values(Case{"Two", kThreads, 2, 6, 2, true, "plain", "qwen3"},
                                           Case{"FourThatShareHeads", kThreads, 4, 6, 2, false,
                                                "plain", "qwen3"}),
                         [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(NormsBehind, TpExecutorTest,
                         ::testing::Values(Case{"Two", kThreads, 2, 6, 2, true, "plain", "gemma3"},
                                           Case{"FourThatShareHeads", kThreads, 4, 6, 2, false,
                                                "plain", "gemma3"}),
                         [](const auto& info) { return info.param.name; });

// A sequence whose pages are damaged on one rank ends alone, and the group continues.
TEST(TpExecutorDamage, OneSequenceFailsAndTheGroupContinues) {
  const RandomModel model(TinyConfig(), 1234);
  const auto said = RunGroup({.model = model, .ranks = 2}, [&](Stage& stage) -> std::string {
    std::vector<StepSegment> decodes;
    for (uint32_t i = 0; i < 2; ++i) {
      StepSegment segment;
      segment.slot = stage.executor.tables().Acquire(kernels::ScoreKind::kNone);
      stage.executor.tables().Extend(segment.slot, stage.pages.Take(2));
      segment.prompt = segment.want_output = true;
      segment.tokens.assign(18, TokenId(3 + i));
      const StepOutput prompt = stage.executor.Collect(stage.executor.Enqueue({{segment}}));
      if (!prompt.status.ok()) return prompt.status.ToString();
      segment.prompt = false;
      segment.first_position = Position(18);
      segment.tokens.clear();  // the sampled token is fed
      decodes.push_back(std::move(segment));
    }
    const BlockTables& table = stage.executor.tables().at(decodes[0].slot);
    stage.pages.Damage(PageId(table.layer(LayerIndex(0)).pages[0]));
    for (uint32_t step = 0; step < 3; ++step) {
      const StepOutput output = stage.executor.Collect(stage.executor.Enqueue({decodes}));
      if (!output.status.ok()) return output.status.ToString();
      if (!absl::IsDataLoss(output.outputs.at(0).status)) return "the damage was not seen";
      if (!output.outputs.at(1).status.ok()) return output.outputs[1].status.ToString();
      for (StepSegment& segment : decodes) ++segment.first_position;
    }
    return stage.executor.fault().ToString();
  });
  EXPECT_EQ(said[0], "OK");
  EXPECT_EQ(said[1], "");
}

TEST(TpFollower, TellsWhenItsDeviceWorks) {
  const RandomModel model(TinyConfig(), 1234);
  int works = 0, changes = 0;
  GroupSetup setup = {.model = model};
  setup.busy = [&](bool busy) {
    works += busy ? 1 : -1;
    ++changes;
  };
  const auto said = RunGroup(setup, [&](Stage& stage) -> std::string {
    stage.executor.Collect(stage.executor.Enqueue({}));
    return "";
  });
  EXPECT_EQ(said[1], "");
  EXPECT_EQ(works, 0);
  EXPECT_GE(changes, 2 * 2);  // the step, and the leave
}

float SecondsSince(SteadyTime begin) {
  return static_cast<float>(absl::ToDoubleSeconds(SteadyNow() - begin));
}

// A leader that talks until something fails; whether that was soon after `killed`, in seconds from
// `begin`, and what it said.
std::string TalkUntilFault(Stage& stage, const ModelConfig& config, SteadyTime begin,
                           const SharedFloats& killed) {
  const SteadyTime start = SteadyNow();
  const SequenceSlot slot = stage.executor.tables().Acquire(kernels::ScoreKind::kNone);
  stage.executor.tables().Extend(slot, stage.pages.Take(38));
  StepSegment segment;
  segment.slot = slot;
  segment.tokens = {TokenId(1)};
  segment.want_output = true;
  absl::Status status;
  uint32_t steps = 0;
  while (status.ok() && steps < config.context && SteadyNow() - start < absl::Seconds(20)) {
    segment.first_position = Position(steps++);
    status = stage.executor.Collect(stage.executor.Enqueue({{segment}})).status;
    absl::SleepFor(absl::Milliseconds(3));
  }
  const float took = SecondsSince(begin) - killed.data()[0];
  if (stage.executor.fault() != status) return "the fault is another";
  // What is still asked for is not waited for.
  const SteadyTime after = SteadyNow();
  stage.executor.Compact(slot, {{{}, {}}, {PageCount(1), PageCount(1)}});
  if (stage.executor.Collect(stage.executor.Enqueue({{segment}})).status != status) return "again?";
  stage.executor.tables().Release(slot);
  if (SteadyNow() - after > absl::Milliseconds(500)) return "the dead were waited for";
  return absl::StrCat(took < 2 ? "soon " : "late ", status.ToString());
}

TEST(TpExecutorFailure, AKilledRankEndsTheStepInTime) {
  const ModelConfig config = TinyConfig();
  const RandomModel model(config, 1234);
  const GroupSetup setup = {.model = model, .ranks = 3, .kind = RanksAre::kProcesses};
  const SharedFloats killed(1);
  const SteadyTime begin = SteadyNow();
  const auto said = RunGroup(
      setup, [&](Stage& stage) { return TalkUntilFault(stage, config, begin, killed); },
      [&](collective::Collective& group) {
        if (group.rank() != Rank(1)) return;
        std::thread([&] {
          absl::SleepFor(absl::Milliseconds(400));
          killed.data()[0] = SecondsSince(begin);
          raise(SIGKILL);
        }).detach();
      });
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(15));
  EXPECT_EQ(said[1], collective::testing::kKilled);
  EXPECT_THAT(said[0], AllOf(StartsWith("soon UNAVAILABLE"), HasSubstr("rank 1 (process ")));
  EXPECT_THAT(said[2], AllOf(StartsWith("UNAVAILABLE"), HasSubstr("rank 1 (process ")));
}

// A leader that speaks by itself, to followers of a real group.
std::vector<std::string> Tell(const std::string& message) {
  static const RandomModel model(TinyConfig(), 1234);
  const GroupSetup setup = {.model = model};
  const auto body = [&](collective::Collective& group) -> std::string {
    std::string bytes = message;
    absl::Status status = group.Broadcast(bytes, SteadyNow() + absl::Seconds(20));
    std::vector<std::byte> done(group.size());
    const std::vector<size_t> sizes(group.size(), 1);
    status.Update(group.Gather({done.data(), 1}, sizes, absl::MakeSpan(done),
                               SteadyNow() + absl::Seconds(20)));
    return status.ToString();
  };
  return FollowByHand(setup, body);
}

TEST(TpExecutorFailure, DifferencesBetweenRanksAreNamed) {
  std::string message;
  AppendCommand(AcquireEdit{SequenceSlot(0), kernels::ScoreKind::kNone}, message);
  AppendCommand(
      ExtendEdit{SequenceSlot(0), {{{PageId(3), Generation(1)}}, {{PageId(4), Generation(1)}}}},
      message);
  StepSegment segment;
  segment.slot = SequenceSlot(0);
  segment.tokens = {TokenId(5)};
  AppendCommand(StepCommand{{{segment}}, 12345}, message);
  for (const std::string& words : Tell(message)) {
    EXPECT_EQ(words, "DATA_LOSS: rank 1: its block tables are not the leader's");
  }
  message.clear();
  AppendCommand(AcquireEdit{SequenceSlot(7), kernels::ScoreKind::kNone}, message);
  for (const std::string& words : Tell(message)) {
    EXPECT_EQ(words, "DATA_LOSS: rank 1: slot 0 was given out instead of slot 7");
  }
}

TEST(TpExecutorFailure, WhatCannotBeReadEndsTheGroup) {
  for (const std::string& words : Tell("nonsense")) {
    EXPECT_THAT(words, StartsWith("INVALID_ARGUMENT: the leader's command cannot be read"));
  }
}

}  // namespace
}  // namespace folio::model::testing
