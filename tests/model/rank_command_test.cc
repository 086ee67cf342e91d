#include "services/model/tp/rank_command.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace folio::model {
namespace {

using ::testing::HasSubstr;

StepCommand Step() {
  StepSegment prompt;
  prompt.slot = SequenceSlot(3);
  prompt.prompt = true;
  prompt.tokens = {TokenId(1), TokenId(49151)};
  prompt.first_position = Position(77);
  prompt.want_output = true;
  prompt.window = {20, 3, 1};
  StepSegment decode;
  decode.slot = SequenceSlot(9);
  decode.tokens = {TokenId(5)};
  decode.score_resident = true;
  decode.top_logprobs = 5;
  return {{{decode, prompt}}, 0x0123456789abcdef};
}

std::string AllCommands() {
  std::string bytes;
  AppendCommand(AcquireEdit{SequenceSlot(4), ScoreKind::kUnrotatedDifference}, bytes);
  AppendCommand(ExtendEdit{SequenceSlot(4),
                           {{{PageId(7), Generation(8)}}, {}, {{PageId(1), Generation(2)}}},
                           /*clear=*/true},
                bytes);
  AppendCommand(RestoreEdit{SequenceSlot(4),
                            {{{{PageId(7), Generation(8)}},
                              {{Position(0), Position(16)}, {Position(40), Position(49)}}},
                             {}},
                            /*clear=*/true},
                bytes);
  AppendCommand(CompactCommand{SequenceSlot(4),
                               {{{TokenSlot(0), TokenSlot(5)}, {}}, {PageCount(1), PageCount(2)}}},
                bytes);
  AppendCommand(
      SwapCommand{{.out = true, .pages = {{PageId(7), SwapSlot(1)}, {PageId(5), SwapSlot(0)}}}},
      bytes);
  AppendCommand(DropEdit{SequenceSlot(4), {{BlockIndex(2), std::nullopt}}}, bytes);
  AppendCommand(Step(), bytes);
  AppendCommand(ReleaseEdit{SequenceSlot(4)}, bytes);
  AppendCommand(CollectCommand{}, bytes);
  AppendCommand(LeaveCommand{}, bytes);
  return bytes;
}

TEST(RankCommand, ReadsWhatWasWritten) {
  const auto commands = ReadCommands(AllCommands());
  ASSERT_TRUE(commands.ok()) << commands.status();
  ASSERT_EQ(commands->size(), 10u);
  const auto& acquire = std::get<AcquireEdit>((*commands)[0]);
  EXPECT_EQ(acquire.slot, SequenceSlot(4));
  EXPECT_EQ(acquire.score, ScoreKind::kUnrotatedDifference);
  const auto& extend = std::get<ExtendEdit>((*commands)[1]);
  EXPECT_TRUE(extend.clear);
  ASSERT_EQ(extend.pages.size(), 3u);
  EXPECT_EQ(extend.pages[2].at(0), (PageRef{PageId(1), Generation(2)}));
  const auto& restore = std::get<RestoreEdit>((*commands)[2]);
  EXPECT_TRUE(restore.clear);
  EXPECT_EQ(restore.layers.at(0).pages.at(0), (PageRef{PageId(7), Generation(8)}));
  ASSERT_EQ(restore.layers[0].positions.size(), 2u);
  EXPECT_EQ(restore.layers[0].positions[1].begin, Position(40));
  EXPECT_EQ(restore.layers[0].positions[1].end, Position(49));
  const auto& compact = std::get<CompactCommand>((*commands)[3]);
  EXPECT_EQ(compact.compact.keep,
            (std::vector<std::vector<TokenSlot>>{{TokenSlot(0), TokenSlot(5)}, {}}));
  EXPECT_EQ(compact.compact.spare, (std::vector<PageCount>{PageCount(1), PageCount(2)}));
  EXPECT_EQ(
      std::get<SwapCommand>((*commands)[4]).swaps,
      (PageSwaps{.out = true, .pages = {{PageId(7), SwapSlot(1)}, {PageId(5), SwapSlot(0)}}}));
  const auto& drop = std::get<DropEdit>((*commands)[5]);
  EXPECT_EQ(drop.drop.block, (std::vector<std::optional<BlockIndex>>{BlockIndex(2), std::nullopt}));
  const auto& step = std::get<StepCommand>((*commands)[6]);
  EXPECT_EQ(step.digest, 0x0123456789abcdefu);
  ASSERT_EQ(step.batch.segments.size(), 2u);
  const StepSegment& prompt = step.batch.segments[1];
  EXPECT_TRUE(prompt.prompt && prompt.want_output && !prompt.score_resident);
  EXPECT_EQ(prompt.tokens, (std::vector<TokenId>{TokenId(1), TokenId(49151)}));
  EXPECT_EQ(prompt.first_position, Position(77));
  EXPECT_EQ(prompt.window.queries, 20u);
  EXPECT_EQ(prompt.window.neighbours, 3u);
  EXPECT_EQ(prompt.window.channel, 1u);
  EXPECT_EQ(prompt.top_logprobs, -1);
  EXPECT_TRUE(step.batch.segments[0].score_resident);
  EXPECT_EQ(step.batch.segments[0].top_logprobs, 1);
  EXPECT_EQ(std::get<ReleaseEdit>((*commands)[7]).slot, SequenceSlot(4));
  EXPECT_TRUE(std::holds_alternative<CollectCommand>((*commands)[8]));
  EXPECT_TRUE(std::holds_alternative<LeaveCommand>((*commands)[9]));
  EXPECT_TRUE(ReadCommands("")->empty());
}

TEST(RankCommand, NothingIsReadBeyondTheEnd) {
  const std::string whole = AllCommands();
  size_t refused = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    // A copy of its own, so that a sanitizer sees the first byte too many.
    const std::string cut(whole.data(), size);
    refused += !ReadCommands(cut).ok();
  }
  // Only ends of commands can be read.
  EXPECT_EQ(refused, whole.size() - 10);
  EXPECT_THAT(std::string(ReadCommands(whole.substr(0, 5)).status().message()),
              HasSubstr("at byte 4 of 5"));
}

TEST(RankCommand, DamageIsRefusedOrReadAsSomethingElse) {
  std::mt19937 random(11);
  const std::string whole = AllCommands();
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 3; ++i) damaged[random() % whole.size()] = static_cast<char>(random());
    (void)ReadCommands(damaged);
  }
  std::string longest;
  AppendCommand(ExtendEdit{SequenceSlot(0), {}}, longest);
  longest.back() = '\x7f';  // a list of two thousand million
  EXPECT_FALSE(ReadCommands(longest).ok());
  EXPECT_FALSE(ReadCommands(std::string("\x0a\0\0\0", 4)).ok());  // no such command
}

}  // namespace
}  // namespace folio::model
