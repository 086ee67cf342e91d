#include "services/runtime/refusal_text.h"

#include <gtest/gtest.h>

namespace folio {
namespace {

TEST(RefusalText, IsReadAsItWasWritten) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status why(static_cast<absl::StatusCode>(code), "rank: 3 is not from 1 to 2");
    const auto read = ParseRefusal(RefusalText(why));
    ASSERT_TRUE(read.has_value()) << code;
    EXPECT_EQ(*read, why);
  }
  EXPECT_EQ(RefusalText(absl::NotFoundError("")), "5 ");
  EXPECT_EQ(*ParseRefusal("5 "), absl::NotFoundError(""));
}

TEST(RefusalText, ALongMessageIsCut) {
  const std::string text = RefusalText(absl::InternalError(std::string(5000, 'x')));
  EXPECT_EQ(text.size(), kMaxRefusalBytes);
  EXPECT_EQ(ParseRefusal(text)->code(), absl::StatusCode::kInternal);
}

TEST(RefusalText, OtherTextsAreNoRefusals) {
  for (const char* text : {"", "5", "0 fine", "17 later", "-1 odd", "x y", "folio-pool 1", " 5"}) {
    EXPECT_FALSE(ParseRefusal(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace folio
