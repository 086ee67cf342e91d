// Tensor parallelism on tiny models: a group gives what one executor gives.
#include <signal.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/tp/rank_command.h"
#include "tests/model/conversation.h"

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

float SecondsSince(absl::Time begin) {
  return static_cast<float>(absl::ToDoubleSeconds(absl::Now() - begin));
}

// A leader that talks until something fails; whether that was soon after `killed`, in seconds from
// `begin`, and what it said.
std::string TalkUntilFault(Stage& stage, const ModelConfig& config, absl::Time begin,
                           const SharedFloats& killed) {
  const absl::Time start = absl::Now();
  const SequenceSlot slot = stage.executor.tables().Acquire(kernels::ScoreKind::kNone);
  stage.executor.tables().Extend(slot, stage.pages.Take(38));
  StepSegment segment;
  segment.slot = slot;
  segment.tokens = {TokenId(1)};
  segment.want_output = true;
  absl::Status status;
  uint32_t steps = 0;
  while (status.ok() && steps < config.context && absl::Now() - start < absl::Seconds(20)) {
    segment.first_position = Position(steps++);
    status = stage.executor.Collect(stage.executor.Enqueue({{segment}})).status;
    absl::SleepFor(absl::Milliseconds(3));
  }
  const float took = SecondsSince(begin) - killed.data()[0];
  if (stage.executor.fault() != status) return "the fault is another";
  // What is still asked for is not waited for.
  const absl::Time after = absl::Now();
  stage.executor.Compact(slot, {{{}, {}}, {PageCount(1), PageCount(1)}});
  if (stage.executor.Collect(stage.executor.Enqueue({{segment}})).status != status) return "again?";
  stage.executor.tables().Release(slot);
  if (absl::Now() - after > absl::Milliseconds(500)) return "the dead were waited for";
  return absl::StrCat(took < 2 ? "soon " : "late ", status.ToString());
}

TEST(TpExecutorFailure, AKilledRankEndsTheStepInTime) {
  const ModelConfig config = TinyConfig();
  const RandomModel model(config, 1234);
  const GroupSetup setup = {.model = model, .ranks = 3, .kind = RanksAre::kProcesses};
  const SharedFloats killed(1);
  const absl::Time begin = absl::Now();
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
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
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
    absl::Status status = group.Broadcast(bytes, absl::Now() + absl::Seconds(20));
    std::vector<std::byte> done(group.size());
    const std::vector<size_t> sizes(group.size(), 1);
    status.Update(group.Gather({done.data(), 1}, sizes, absl::MakeSpan(done),
                               absl::Now() + absl::Seconds(20)));
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
