// The protocol and services/base/score_kind.h name and number the same scores.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/base/score_kind.h"

namespace folio {
namespace {

TEST(ScoreNames, EachKindHasItsNumberAndName) {
  for (size_t i = 0; i < kNumScoreKinds; ++i) {
    const ScoreTraits& traits = kScoreKinds[i];
    EXPECT_EQ(static_cast<size_t>(traits.kind), i);
    const std::string expected =
        i == 0 ? "SCORE_KIND_UNSPECIFIED"
               : absl::StrCat("SCORE_KIND_", absl::AsciiStrToUpper(traits.name));
    EXPECT_EQ(v1::ScoreKind_Name(static_cast<v1::ScoreKind>(i)), expected);
  }
}

TEST(ScoreNames, OneChannelIsForEveryKindAndTheSecondForTheWindow) {
  for (const ScoreTraits& traits : kScoreKinds) {
    EXPECT_EQ(traits.channels, traits.kind == ScoreKind::kWindowAttention ? 2U : 1U);
    EXPECT_EQ(traits.time == ScoreTime::kNever, traits.kind == ScoreKind::kNone);
  }
}

}  // namespace
}  // namespace folio
