#include "services/client/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace folio::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::StartsWith;

TEST(PolicyText, GoesThereAndBack) {
  for (const char* text :
       {"full",
        "paged_eviction",
        "streaming_llm",
        "inverse_key_norm",
        "value_norm",
        "key_diff",
        "snap_kv",
        "snap_kv:window=32",
        "snap_kv:pool=1",
        "snap_kv:window=64,pool=7",
        "query_diff",
        "query_diff:share=0.5,window=16,pool=31",
        "query_diff:share=0",
        "query_diff:window=8",
        "query_diff:share=1,pool=3",
        "query_diff:neighbours=0,judges_from=0.5,judges_to=1",
        "random",
        "random:seed=18446744073709551615",
        "kv_crush:paged_eviction",
        "kv_crush:key_diff,share=0.125,anchor=alternating",
        "kv_crush:snap_kv,pool=5",
        "kv_crush:snap_kv,window=16,share=0.5,anchor=random,seed=7",
        "kv_crush:snap_kv,window=16,pool=9,share=0.5,anchor=mean,seed=7,decode=base",
        "kv_crush:inverse_key_norm,anchor=zeros",
        "kv_crush:key_diff,share=0.5,decode=base"}) {
    const auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ(PolicyText(*policy), text);
  }
}

TEST(PolicyText, FormsNameEveryPolicyAndItsParameters) {
  const std::vector<std::string> forms = PolicyForms();
  EXPECT_THAT(
      forms, IsSupersetOf({"full", "key_diff", "random[:seed=N]", "snap_kv[:window=N][,pool=N]",
                           "query_diff[:share=N][,window=N][,pool=N][,neighbours=N][,judges_from=N]"
                           "[,judges_to=N]",
                           "kv_crush[:BASE][,share=N][,anchor=mean|alternating|zeros|ones|"
                           "random][,seed=N][,decode=crush|base]"}));
  for (const std::string& form : forms) {
    const std::string name = form.substr(0, form.find('['));
    EXPECT_TRUE(ParsePolicy(name).ok()) << form;
  }
}

TEST(PolicyText, TakesParametersInAnyOrder) {
  for (const auto& [text, same] : std::initializer_list<std::pair<const char*, const char*>>{
           {"snap_kv:pool=7,window=64", "snap_kv:window=64,pool=7"},
           {"query_diff:pool=31,window=16,share=0.5", "query_diff:share=0.5,window=16,pool=31"},
           {"kv_crush:share=0.5,key_diff", "kv_crush:key_diff,share=0.5"},
           {"kv_crush:pool=3,share=0.5,snap_kv", "kv_crush:snap_kv,pool=3,share=0.5"},
           {"kv_crush:decode=base,seed=2", "kv_crush:paged_eviction,seed=2,decode=base"},
           {"kv_crush:decode=crush", "kv_crush:paged_eviction"},
           {"kv_crush", "kv_crush:paged_eviction"}}) {
    const auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_EQ(PolicyText(*policy), same);
  }
}

TEST(PolicyText, FillsTheMessagesFields) {
  const auto query_diff = ParsePolicy("query_diff:share=0.25,window=8,pool=15");
  ASSERT_TRUE(query_diff.ok()) << query_diff.status();
  EXPECT_EQ(query_diff->query_diff().share(), 0.25F);
  EXPECT_EQ(query_diff->query_diff().window(), 8);
  EXPECT_EQ(query_diff->query_diff().pool(), 15);
  const auto crush = ParsePolicy("kv_crush:snap_kv,pool=5,anchor=ones");
  ASSERT_TRUE(crush.ok()) << crush.status();
  EXPECT_EQ(crush->kv_crush().snap_kv().pool(), 5);
  EXPECT_FALSE(crush->kv_crush().snap_kv().has_window());
  EXPECT_EQ(crush->kv_crush().anchor(), folio::v1::CRUSH_ANCHOR_ONES);
  EXPECT_FALSE(crush->kv_crush().has_share());
}

TEST(PolicyText, IsFullForNoKindAndLeavesOutUnknownWords) {
  EXPECT_EQ(PolicyText({}), "full");
  folio::v1::Policy newer;
  newer.mutable_kv_crush()->set_anchor(static_cast<folio::v1::CrushAnchor>(99));
  newer.mutable_kv_crush()->mutable_key_diff();
  EXPECT_EQ(PolicyText(newer), "kv_crush:key_diff");
}

// The text form is made from the protocol: every kind of it, now and later, must have one.
TEST(PolicyText, KnowsEveryKindAndParameterOfTheProtocol) {
  const auto& kinds = *folio::v1::Policy::descriptor();
  ASSERT_GE(kinds.field_count(), 9);
  for (int i = 0; i < kinds.field_count(); ++i) {
    const std::string name = kinds.field(i)->name();
    const auto policy = ParsePolicy(name);
    ASSERT_TRUE(policy.ok()) << policy.status();
    EXPECT_THAT(PolicyText(*policy), StartsWith(name));
    EXPECT_THAT(std::string(ParsePolicy("lru").status().message()), HasSubstr(name));
    const auto& message = *kinds.field(i)->message_type();
    for (int j = 0; j < message.field_count(); ++j) {
      const auto& field = *message.field(j);
      if (field.name() == "prefill_only") continue;
      const bool base = field.cpp_type() == field.CPPTYPE_MESSAGE;
      const bool word = field.cpp_type() == field.CPPTYPE_ENUM;
      const std::string text = name + ":" + field.name() + (base ? "" : word ? "=random" : "=1");
      const auto set = ParsePolicy(text);
      ASSERT_TRUE(set.ok()) << set.status();
      EXPECT_THAT(PolicyText(*set), HasSubstr(text.substr(name.size() + 1)));
    }
  }
}

TEST(PolicyText, SaysWhatItDoesNotUnderstand) {
  for (const auto& [text, word] : std::initializer_list<std::pair<const char*, const char*>>{
           {"lru", "no such policy; use full, paged_eviction, "},
           {"lru", ", query_diff or value_norm"},
           {"", "no such policy"},
           {"snap_kv:window=wide", "\"window=wide\""},
           {"snap_kv:share=0.5",
            "\"share=0.5\" is not a parameter of snap_kv; it takes window=N, pool=N"},
           {"snap_kv:pool=x", "\"pool=x\""},
           {"snap_kv:pool=-1", "\"pool=-1\""},
           {"snap_kv:pool=2.5", "\"pool=2.5\""},
           {"snap_kv:window=4294967296", "\"window=4294967296\""},
           {"query_diff:share=x", "\"share=x\""},
           {"query_diff:pool=x", "\"pool=x\""},
           {"query_diff:window=", "\"window=\""},
           {"query_diff:seed=1",
            "is not a parameter of query_diff; it takes share=N, window=N, pool=N, neighbours=N, "
            "judges_from=N, judges_to=N"},
           {"query_diff:snap_kv", "\"snap_kv\""},
           {"query_diff:share=0.5,", "\"\" is not a parameter"},
           {"full:many", "\"many\" is not a parameter of full; it takes none"},
           {"paged_eviction:key_diff", "\"key_diff\""},
           {"random:seed=-1", "\"seed=-1\""},
           {"kv_crush:full", "\"full\""},
           {"kv_crush:query_diff", "\"query_diff\""},
           {"kv_crush:anchor=middle", "anchor=mean|alternating|zeros|ones|random, seed=N"},
           {"kv_crush:anchor=unspecified", "\"anchor=unspecified\""},
           {"kv_crush:decode=later", "decode=crush|base"},
           {"kv_crush:prefill_only=1", "\"prefill_only=1\""},
           {"kv_crush:window=3", "it takes paged_eviction, inverse_key_norm, key_diff, "},
           {"kv_crush:window=3", "snap_kv[,window=N][,pool=N], share=N, "},
           {"kv_crush:key_diff,pool=3", "\"pool=3\""},
           {"kv_crush:snap_kv,pool=x", "\"pool=x\""},
           {"kv_crush:key_diff,,", "\"\""}}) {
    const auto refused = ParsePolicy(text).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(std::string("policy \"") + text + "\""), HasSubstr(word)));
  }
}

}  // namespace
}  // namespace folio::client
