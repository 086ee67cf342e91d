#include "services/cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/cli/exit_code.h"
#include "services/cli/rule_flags.h"

namespace folio::cli {
namespace {

using ::testing::ElementsAre;

TEST(Options, TimeoutsInAllTheirForms) {
  absl::Duration timeout;
  EXPECT_TRUE(ParseTimeout("30", &timeout));
  EXPECT_EQ(timeout, absl::Seconds(30));
  EXPECT_TRUE(ParseTimeout("0.5", &timeout));
  EXPECT_EQ(timeout, absl::Milliseconds(500));
  EXPECT_TRUE(ParseTimeout("1m30s", &timeout));
  EXPECT_EQ(timeout, absl::Seconds(90));
  EXPECT_TRUE(ParseTimeout("250ms", &timeout));
  EXPECT_EQ(timeout, absl::Milliseconds(250));
  for (const char* wrong : {"", "0", "-5s", "soon", "5 apples", "nan"}) {
    EXPECT_FALSE(ParseTimeout(wrong, &timeout)) << wrong;
  }
}

TEST(Options, DashesInFlagNamesAreUnderscores) {
  EXPECT_THAT(NormalizeFlags({"a-b", "--top-p=x-y", "-x", "--", "--a-b"}),
              ElementsAre("a-b", "--top_p=x-y", "-x", "--", "--a-b"));
}

TEST(Options, RuleFlagsBecomeTheMessage) {
  RuleFlags flags;
  folio::v1::GenerateRequest request;
  ASSERT_TRUE(flags.Fill(&request).ok());
  EXPECT_FALSE(request.has_format() || request.sampling().has_repetition_penalty());
  flags.presence_penalty = 0.5F;
  flags.repetition_penalty = 1.5F;
  flags.logit_bias = {"7=-100", "8=1.5"};
  flags.min_tokens = 3;
  flags.stop_token_ids = {4, 5};
  flags.regex = "a=b";
  ASSERT_TRUE(flags.Fill(&request).ok());
  EXPECT_EQ(request.sampling().presence_penalty(), 0.5F);
  EXPECT_EQ(request.sampling().repetition_penalty(), 1.5F);
  ASSERT_EQ(request.sampling().logit_bias_size(), 2);
  EXPECT_EQ(request.sampling().logit_bias(0).token(), 7U);
  EXPECT_EQ(request.sampling().logit_bias(1).bias(), 1.5F);
  EXPECT_EQ(request.min_tokens(), 3U);
  EXPECT_THAT(request.stop_token_ids(), ElementsAre(4U, 5U));
  EXPECT_EQ(request.format().regex(), "a=b");
  flags.regex = "@/no/such/file";
  EXPECT_EQ(flags.Fill(&request).code(), absl::StatusCode::kNotFound);
  for (const char* wrong : {"7", "=1", "7=", "x=1", "7=x", "-1=2"}) {
    flags.logit_bias = {wrong};
    EXPECT_TRUE(IsUsageError(flags.Fill(&request))) << wrong;
  }
}

TEST(Options, CacheFlagsBecomeTheMessage) {
  CacheFlags flags;
  EXPECT_TRUE(flags.ToProto()->policy().has_full());
  EXPECT_EQ(flags.ToProto()->eviction_mode(), folio::v1::EVICTION_MODE_PIPELINED);
  flags.policy = "streaming_llm";
  flags.budget = "64";
  flags.sink = 0;
  const auto cache = flags.ToProto();
  ASSERT_TRUE(cache.ok());
  EXPECT_TRUE(cache->policy().has_streaming_llm());
  EXPECT_EQ(cache->budget_tokens(), 64);
  // Zero is a choice, not a default.
  EXPECT_TRUE(cache->has_sink_tokens());
  EXPECT_FALSE(cache->has_recent_tokens());
  EXPECT_FALSE(cache->has_prompt_share()) << "the policy's own";
  flags.policy = "lru";
  EXPECT_EQ(flags.ToProto().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Options, BudgetsAreTokensOrAShareOrAListOfLayers) {
  CacheFlags flags;
  flags.policy = "kv_crush:key_diff,share=0.5";
  flags.budget = "0.25";
  flags.schedule = "pyramid";
  flags.layers = "shared";
  flags.prompt_share = 0.5F;
  flags.protect_ends = 0.25F;
  flags.segments = 8;
  auto cache = flags.ToProto();
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_TRUE(cache->policy().kv_crush().has_key_diff());
  EXPECT_EQ(cache->budget_share(), 0.25F);
  EXPECT_EQ(cache->budget_tokens(), 0);
  EXPECT_EQ(cache->budget_schedule(), folio::v1::BUDGET_SCHEDULE_PYRAMID);
  EXPECT_EQ(cache->layers(), folio::v1::LAYERS_SHARED);
  EXPECT_EQ(cache->prompt_share(), 0.5F);
  EXPECT_EQ(cache->protect_ends(), 0.25F);
  EXPECT_EQ(cache->segments(), 8);
  flags.budget = "64,32";
  EXPECT_THAT(flags.ToProto()->layer_budget_tokens(), ElementsAre(64, 32));
  for (const char* wrong : {"many", "64,", "64,x", "-5", "1.5", "nan"}) {
    flags.budget = wrong;
    const auto refused = flags.ToProto();
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr(wrong));
  }
}

}  // namespace
}  // namespace folio::cli
