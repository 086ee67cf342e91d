#include "services/runtime/logging.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace folio::log {
namespace {

const absl::Time kTime = absl::FromUnixMillis(1767323045678);

TEST(Logging, TextQuotesOnlyWhatNeedsIt) {
  EXPECT_EQ(FormatLine(Format::kText, Level::kWarning, kTime, "worker fenced",
                       {{"worker", "w1"},
                        {"pid", 1234},
                        {"why", "lease ran out"},
                        {"name", ""},
                        {"path", std::string("a\nb\"c")},
                        {"ok", true},
                        {"left", absl::Milliseconds(1500)}}),
            "2026-01-02T03:04:05.678Z WARNING worker fenced worker=w1 pid=1234 "
            "why=\"lease ran out\" name=\"\" path=\"a\\nb\\\"c\" ok=true left=1.5s");
}

TEST(Logging, JsonIsOneObjectWithTypedFields) {
  const std::string line = FormatLine(Format::kJson, Level::kInfo, kTime, "said \"hi\"",
                                      {{"bytes", uint64_t{18446744073709551615U}},
                                       {"id", SequenceId(7)},
                                       {"bad_utf8", std::string("x\xff")},
                                       {"status", absl::NotFoundError("gone")},
                                       {"ratio", 0.5},
                                       {"on", false}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "2026-01-02T03:04:05.678Z");
  EXPECT_EQ(json["level"], "info");
  EXPECT_EQ(json["message"], "said \"hi\"");
  EXPECT_EQ(json["bytes"], uint64_t{18446744073709551615U});
  EXPECT_EQ(json["id"], 7);
  EXPECT_EQ(json["bad_utf8"], "x\xef\xbf\xbd");
  EXPECT_EQ(json["status"], "NOT_FOUND: gone");
  EXPECT_EQ(json["on"], false);
}

TEST(Logging, LevelsHoldBackWhatIsBelow) {
  Configure(Format::kText, Level::kWarning);
  EXPECT_FALSE(Enabled(Level::kInfo));
  EXPECT_TRUE(Enabled(Level::kWarning));
  Configure(Format::kText, Level::kDebug);
  EXPECT_TRUE(Enabled(Level::kDebug));
}

TEST(Logging, WritesToStandardError) {
  Configure(Format::kText, Level::kInfo);
  ::testing::internal::CaptureStderr();
  Debug("not this");
  Info("but this", {{"n", 1}});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("not this"), std::string::npos);
  EXPECT_NE(text.find("INFO but this n=1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace folio::log
