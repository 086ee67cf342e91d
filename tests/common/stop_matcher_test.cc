#include "services/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace folio {
namespace {

TEST(StopMatcherTest, HoldsBackAPossibleStartAndGivesItWhenItWasNone) {
  StopMatcher matcher({"\n\n", "END"});
  EXPECT_EQ(matcher.Feed("one\n").text, "one");
  EXPECT_EQ(matcher.Feed("two E").text, "\ntwo ");
  EXPECT_EQ(matcher.Feed("NE").text, "EN");
  const StopMatcher::Found found = matcher.Feed("ND and more");
  EXPECT_EQ(found.text, "");
  EXPECT_EQ(found.stop, 1U);
  EXPECT_EQ(matcher.Feed("END").text, "");
  EXPECT_EQ(matcher.Feed("END").stop, std::nullopt);
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, FlushGivesWhatWasHeld) {
  StopMatcher matcher({"stop"});
  EXPECT_EQ(matcher.Feed("to st").text, "to ");
  EXPECT_EQ(matcher.Flush(), "st");
  EXPECT_EQ(matcher.Flush(), "");
  EXPECT_EQ(matcher.Feed("op").text, "op");
}

TEST(StopMatcherTest, FirstEndWinsThenTheLongest) {
  StopMatcher inner({"abcd", "bc"});
  StopMatcher::Found found = inner.Feed("xabcd");
  EXPECT_EQ(found.text, "xa");
  EXPECT_EQ(found.stop, 1U);
  StopMatcher together({"c", "abc", "bc"});
  found = together.Feed("xabc");
  EXPECT_EQ(found.text, "x");
  EXPECT_EQ(found.stop, 1U);
}

TEST(StopMatcherTest, WithoutStopStringsAllPasses) {
  StopMatcher none({});
  EXPECT_EQ(none.Feed("abc").text, "abc");
  StopMatcher empty({""});
  const StopMatcher::Found found = empty.Feed("abc");
  EXPECT_EQ(found.text, "abc");
  EXPECT_EQ(found.stop, std::nullopt);
}

TEST(StopMatcherTest, NeverCutsACharacter) {
  StopMatcher matcher({"\u00E9t\u00E9"});
  EXPECT_EQ(matcher.Feed("\u00E8").text, "\u00E8");
  EXPECT_EQ(matcher.Feed("\u00E9").text, "");
  EXPECT_EQ(matcher.Feed("\u00E8").text, "\u00E9\u00E8");
}

// What the header promises, by trying every end and every stop string.
StopMatcher::Found Search(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    StopMatcher::Found found;
    size_t longest = 0;
    for (size_t i = 0; i < stops.size(); ++i) {
      const size_t size = stops[i].size();
      if (size > longest && size <= end && text.compare(end - size, size, stops[i]) == 0) {
        longest = size;
        found = {text.substr(0, end - size), i};
      }
    }
    if (found.stop.has_value()) return found;
  }
  return {text, std::nullopt};
}

TEST(StopMatcherTest, AgreesWithAPlainSearchHoweverTheTextIsCut) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto word = [&](size_t size) {
    std::string text;
    for (size_t i = 0; i < size; ++i) text += "ab"[random() % 2];
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(random() % 4);
    for (std::string& stop : stops) stop = word(1 + random() % 7);
    const std::string text = word(random() % 40);
    StopMatcher matcher(stops);
    StopMatcher::Found total;
    for (size_t at = 0; at < text.size() && !total.stop.has_value();) {
      const size_t cut = random() % 5;
      const StopMatcher::Found found = matcher.Feed(absl::string_view(text).substr(at, cut));
      total.text += found.text;
      total.stop = found.stop;
      at += cut;
    }
    total.text += matcher.Flush();
    const StopMatcher::Found wanted = Search(text, stops);
    ASSERT_EQ(total.text, wanted.text) << text << " round " << round;
    ASSERT_EQ(total.stop, wanted.stop) << text << " round " << round;
    stopped += wanted.stop.has_value() ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
}

}  // namespace
}  // namespace folio
