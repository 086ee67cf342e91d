// What a worker's OpenSequence becomes for the coordinator.
#include "services/manager/open_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/wire/session.h"

namespace folio::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr CacheRules kOpenRules = {16, 2, {}};

OpenSequence FromMessage(const v1::OpenSequence& open) {
  v1::SessionRequest request;
  *request.add_open() = open;
  return wire::FromProto(request).open[0];
}

TEST(Open, CarriesEverything) {
  v1::OpenSequence message;
  for (const uint32_t token : {5U, 0U, 4294967295U}) message.add_prompt_tokens(token);
  message.set_max_new_tokens(9);
  message.set_label("a label");
  message.set_resume_token("0123456789abcdef");
  message.mutable_output()->add_stop("stop");
  message.mutable_sampling()->set_top_k(3);
  auto request = MakeOpenRequest(FromMessage(message), WorkerId(3), kOpenRules);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->worker, WorkerId(3));
  EXPECT_THAT(request->prompt, ElementsAre(TokenId(5), TokenId(0), TokenId(4294967295U)));
  EXPECT_EQ(request->max_new_tokens, TokenCount(9));
  EXPECT_EQ(request->metadata.label, "a label");
  EXPECT_EQ(request->metadata.resume_token, "0123456789abcdef");
  EXPECT_EQ(request->metadata.output, message.output().SerializeAsString());
  EXPECT_EQ(request->metadata.sampling.top_k, 3U);
}

TEST(Open, RefusesWhatIsTooLong) {
  v1::OpenSequence message;
  message.set_resume_token("short");
  auto refused = MakeOpenRequest(FromMessage(message), WorkerId(3), kOpenRules).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("resume_token: has 5 bytes"));
  message.clear_resume_token();
  message.mutable_output()->add_stop(std::string(100000, 's'));
  refused = MakeOpenRequest(FromMessage(message), WorkerId(3), kOpenRules).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("output: has"));
}

TEST(Open, RefusesSettingsThatAreNoMessage) {
  OpenSequence open;
  open.cache.bytes = "\xff\xff";
  const absl::Status refused = MakeOpenRequest(open, WorkerId(3), kOpenRules).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("cache"));
}

}  // namespace
}  // namespace folio::manager
