#include "services/client/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace folio::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PolicyText, GoesThereAndBack) {
  for (const char* text :
       {"full", "paged_eviction", "streaming_llm", "inverse_key_norm", "key_diff", "snap_kv",
        "snap_kv:window=32", "random", "random:seed=18446744073709551615",
        "kv_crush:paged_eviction", "kv_crush:key_diff,share=0.125,anchor=alternating",
        "kv_crush:snap_kv,window=16,share=0.5,anchor=random,seed=7",
        "kv_crush:inverse_key_norm,anchor=zeros", "kv_crush:key_diff,share=0.5,decode=base"}) {
    const auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ(PolicyText(*policy), text);
  }
  // A base may come later or be left out.
  EXPECT_EQ(PolicyText(*ParsePolicy("kv_crush:share=0.5,key_diff")), "kv_crush:key_diff,share=0.5");
  EXPECT_EQ(PolicyText(*ParsePolicy("kv_crush")), "kv_crush:paged_eviction");
  EXPECT_EQ(PolicyText({}), "full");
}

TEST(PolicyText, SaysWhatItDoesNotUnderstand) {
  for (const auto& [text, word] : std::initializer_list<std::pair<const char*, const char*>>{
           {"lru", "no such policy; use full"},
           {"", "no such policy"},
           {"snap_kv:window=wide", "\"window=wide\""},
           {"snap_kv:share=0.5", "\"share=0.5\" is no parameter of snap_kv"},
           {"paged_eviction:key_diff", "\"key_diff\""},
           {"random:seed=-1", "\"seed=-1\""},
           {"kv_crush:full", "\"full\""},
           {"kv_crush:anchor=middle", "\"anchor=middle\""},
           {"kv_crush:window=3", "\"window=3\""},
           {"kv_crush:key_diff,,", "\"\""}}) {
    const auto refused = ParsePolicy(text).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(std::string("policy \"") + text + "\""), HasSubstr(word)));
  }
}

}  // namespace
}  // namespace folio::client
