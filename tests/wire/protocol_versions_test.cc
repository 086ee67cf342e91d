#include "services/wire/protocol_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace folio::wire {
namespace {

using ::testing::HasSubstr;

v1::AttachRequest Asks(uint32_t oldest, uint32_t newest) {
  v1::AttachRequest request;
  request.set_protocol_version(oldest);
  request.set_newest_protocol_version(newest);
  return request;
}

TEST(ProtocolVersions, TheNewestThatBothSpeakIsChosen) {
  // Every pair of ranges in 1 to 5. The set of common versions is counted, not computed.
  constexpr uint32_t kMost = 5;
  uint32_t refused = 0;
  for (uint32_t a = 1; a <= kMost; ++a) {
    for (uint32_t b = a; b <= kMost; ++b) {
      for (uint32_t c = 1; c <= kMost; ++c) {
        for (uint32_t d = c; d <= kMost; ++d) {
          uint32_t newest = 0;
          for (uint32_t v = 1; v <= kMost; ++v) {
            if (v >= a && v <= b && v >= c && v <= d) newest = v;
          }
          const auto chosen = ChooseVersion({a, b}, Asks(c, d));
          SCOPED_TRACE(absl::StrCat("manager ", a, " to ", b, ", worker ", c, " to ", d));
          if (newest == 0) {
            ++refused;
            EXPECT_EQ(chosen.status().code(), absl::StatusCode::kFailedPrecondition);
            continue;
          }
          ASSERT_TRUE(chosen.ok()) << chosen.status();
          EXPECT_EQ(*chosen, newest);
          // The worker takes each version that a manager may choose for it.
          v1::AttachResponse response;
          response.set_protocol_version(*chosen);
          EXPECT_EQ(*ChosenVersion({c, d}, response), newest);
        }
      }
    }
  }
  EXPECT_GT(refused, 0U);
}

TEST(ProtocolVersions, AWorkerWithoutARangeSpeaksOneVersion) {
  EXPECT_EQ(*ChooseVersion({2, 4}, Asks(3, 0)), 3U);
  EXPECT_EQ(*ChooseVersion({2, 4}, Asks(4, 0)), 4U);
  EXPECT_EQ(ChooseVersion({2, 4}, Asks(5, 0)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ChooseVersion({2, 4}, Asks(0, 0)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ProtocolVersions, AManagerWithoutRangesHasAcceptedTheOldest) {
  const v1::AttachResponse silent;
  EXPECT_EQ(*ChosenVersion({3, 5}, silent), 3U);
  v1::AttachRequest request;
  SetVersions({3, 5}, &request);
  EXPECT_EQ(request.protocol_version(), 3U) << "such a manager looks at this field alone";
}

TEST(ProtocolVersions, RefusalsNameBothRanges) {
  EXPECT_THAT(ChooseVersion({3, 4}, Asks(5, 7)).status().message(),
              HasSubstr("the manager speaks versions 3 to 4 and the worker versions 5 to 7"));
  EXPECT_THAT(ChooseVersion({3, 3}, Asks(2, 2)).status().message(),
              HasSubstr("the manager speaks version 3 and the worker version 2"));
  const auto backwards = ChooseVersion({3, 4}, Asks(4, 3));
  EXPECT_EQ(backwards.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(backwards.status().message(), HasSubstr("newest_protocol_version: 3"));
}

TEST(ProtocolVersions, AWorkerRefusesAVersionThatItDoesNotSpeak) {
  for (const uint32_t version : {2U, 6U}) {
    v1::AttachResponse response;
    response.set_protocol_version(version);
    const auto chosen = ChosenVersion({3, 5}, response);
    EXPECT_EQ(chosen.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(chosen.status().message(), HasSubstr("the worker speaks versions 3 to 5"));
  }
}

TEST(ProtocolVersions, AModelWithWindowsWantsAManagerThatKnowsOfThem) {
  v1::ModelLayout layout;
  layout.set_model("gemma");
  EXPECT_TRUE(CheckKnowsWindows(3, layout).ok());
  layout.set_window_tokens(512);
  EXPECT_TRUE(CheckKnowsWindows(4, layout).ok());
  const absl::Status refused = CheckKnowsWindows(3, layout);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("upgrade the manager"));
}

}  // namespace
}  // namespace folio::wire
