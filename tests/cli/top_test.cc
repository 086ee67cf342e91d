// folioctl top: rates, keys and frames, without a terminal. tests/e2e/test_top.py has one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "absl/strings/str_join.h"
#include "services/cli/table.h"
#include "services/cli/top_view.h"
#include "tests/cli/fixed_manager.h"
#include "tests/cli/golden.h"
#include "tests/cli/run_cli.h"

namespace folio::cli {
namespace {

using ::folio::testing::CliResult;
using ::folio::testing::ExpectGolden;
using ::folio::testing::FillManager;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedAdmin;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

Snapshot FixedSnapshot(int seconds, uint32_t tokens) {
  ScriptedAdmin admin;
  FillManager(admin);
  Snapshot snapshot;
  snapshot.when += absl::Seconds(seconds);
  snapshot.date = "12:34:56";
  snapshot.manager = admin.manager;
  snapshot.pools = admin.pools;
  snapshot.sequences = admin.sequences;
  snapshot.tenants = admin.tenants;
  for (const auto& response : admin.pages) {
    snapshot.pages.insert(snapshot.pages.end(), response.runs().begin(), response.runs().end());
  }
  for (auto& one : *snapshot.sequences.mutable_sequences()) {
    one.set_logical_length(one.logical_length() +
                           tokens * static_cast<uint32_t>(one.sequence_id()));
  }
  snapshot.evicted_pages = 6;
  snapshot.parked = 1;
  return snapshot;
}

class Top : public ::testing::Test {
 protected:
  Top() {
    data_.Add(FixedSnapshot(0, 0));
    data_.Add(FixedSnapshot(2, 4));
    terminal_.utf8 = true;
  }
  std::vector<std::string> Draw() { return view_.Draw(data_, terminal_); }
  std::string Text() { return absl::StrJoin(Draw(), "\n"); }
  void Type(const std::string& characters) {
    for (const char c : characters) view_.OnKey({Key::Name::kCharacter, c});
  }

  std::istringstream in_;
  std::ostringstream out_;
  Interrupts interrupts_{[] {}};
  Terminal terminal_{in_, out_, out_, interrupts_};
  TopData data_;
  TopView view_;
};

TEST_F(Top, RatesAreOverTheTimeBetweenSnapshots) {
  EXPECT_EQ(data_.rates().by_sequence.at(7), 14);
  EXPECT_EQ(data_.rates().decoded_tokens, 2 * (7 + 8 + 9));
  EXPECT_EQ(data_.rates().prompt_tokens, 0);
  EXPECT_EQ(data_.rates().evicted_pages, 3);
  EXPECT_EQ(data_.rates().parked, 0.5);
}

TEST_F(Top, AFrameOf80Times24) {
  const std::vector<std::string> lines = Draw();
  EXPECT_THAT(lines, SizeIs(24));
  for (const std::string& line : lines) {
    if (line.find('\033') == std::string::npos) {
      EXPECT_LE(DisplayWidth(line), 80U) << line;
    }
  }
  ExpectGolden("top.txt", absl::StrJoin(lines, "\n") + "\n");
}

TEST_F(Top, FitsIntoSmallAndLargeTerminals) {
  for (const ScreenSize size : {ScreenSize{20, 5}, ScreenSize{1, 1}, ScreenSize{300, 100}}) {
    view_.Resize(size);
    EXPECT_THAT(Draw(), SizeIs(std::max(size.height, 2)));
  }
}

TEST_F(Top, SortsFiltersAndOpens) {
  EXPECT_THAT(Text(), HasSubstr("sorted by: slowest"));
  Type("s");
  EXPECT_THAT(Text(), HasSubstr("sorted by: pages"));
  Type("SS");
  EXPECT_THAT(Text(), HasSubstr("sorted by: id"));
  Type("/TEAM");
  EXPECT_THAT(Text(), HasSubstr("filter: TEAM_"));
  view_.OnKey({Key::Name::kEnter});
  EXPECT_THAT(Text(), AllOf(HasSubstr("job 7"), Not(HasSubstr("job 8"))));
  view_.OnKey({Key::Name::kDown});
  Draw();
  view_.OnKey({Key::Name::kEnter});
  EXPECT_EQ(view_.opened(), 9U);
  view_.SetDetail({"the sequence"});
  EXPECT_THAT(Text(), AllOf(HasSubstr("the sequence"), Not(HasSubstr("job 7"))));
  view_.OnKey({Key::Name::kDown});  // all of it is shown
  EXPECT_THAT(Text(), HasSubstr("the sequence"));
  std::vector<std::string> lines(40, "line");
  lines.back() = "the last line";
  view_.SetDetail(lines);
  EXPECT_THAT(Text(), Not(HasSubstr("the last line")));
  view_.OnKey({Key::Name::kEnd});
  EXPECT_THAT(Text(), HasSubstr("the last line"));
  view_.OnKey({Key::Name::kEscape});
  EXPECT_FALSE(view_.opened().has_value());
  view_.OnKey({Key::Name::kEscape});
  EXPECT_THAT(Text(), HasSubstr("job 8"));
  Type("/zzz");
  EXPECT_THAT(Text(), HasSubstr("No sequence passes the filter."));
}

TEST_F(Top, LeavesByQAndCtrlC) {
  EXPECT_FALSE(view_.OnKey({Key::Name::kCharacter, 'q'}));
  EXPECT_FALSE(view_.OnKey({Key::Name::kInterrupt}));
  Type("p");
  EXPECT_TRUE(view_.paused());
}

TEST_F(Top, LabelsDoNotSteerTheTerminal) {
  Snapshot snapshot = FixedSnapshot(3, 4);
  snapshot.sequences.mutable_sequences(0)->set_label("\033[2J\nx");
  data_.Add(std::move(snapshot));
  EXPECT_THAT(Text(), AllOf(HasSubstr("\\x1b[2J\\nx"), Not(HasSubstr("\033[2J"))));
}

TEST(TopOnce, PrintsAFrameAndRefusesWhatIsNoTerminal) {
  ScriptedAdmin admin;
  FillManager(admin);
  const CliResult once =
      Folioctl({"top", "--once", "--interval", "50ms", "--address", admin.address()});
  EXPECT_EQ(once.code, 0) << once.err;
  EXPECT_THAT(once.out, AllOf(HasSubstr("108 of 480 pages held (22 %)"), HasSubstr("job 9")));
  const CliResult refused = Folioctl({"top", "--address", admin.address()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--once"));
  EXPECT_EQ(Folioctl({"top", "--once", "--output", "json"}).code, 2);
  EXPECT_EQ(Folioctl({"top", "--interval", "1ms"}).code, 2);
}

TEST(Keys, AreParsedOneAfterTheOther) {
  const auto names = [](std::string bytes) {
    std::vector<Key::Name> keys;
    while (!bytes.empty()) {
      const ParsedKey parsed = ParseKey(bytes);
      bytes.erase(0, parsed.bytes);
      if (parsed.key.has_value()) keys.push_back(parsed.key->name);
    }
    return keys;
  };
  using Name = Key::Name;
  using Names = std::vector<Name>;
  EXPECT_EQ(names("\033[A\033[B\033OAq\r"),
            (Names{Name::kUp, Name::kDown, Name::kUp, Name::kCharacter, Name::kEnter}));
  EXPECT_EQ(names("\033[5~\033[6~\033[H\033OF"),
            (Names{Name::kPageUp, Name::kPageDown, Name::kHome, Name::kEnd}));
  EXPECT_EQ(names("\033"), Names{Name::kEscape});
  EXPECT_EQ(names("\033[1;5C\033[200~x"), Names{Name::kCharacter});
  EXPECT_EQ(names("\003\177\b\001\xff"),
            (Names{Name::kInterrupt, Name::kBackspace, Name::kBackspace}));
}

}  // namespace
}  // namespace folio::cli
