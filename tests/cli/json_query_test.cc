// JsonQuery: what expressions give, and what is said about those that will not do.
#include "services/cli/json_query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "services/cli/exit_code.h"

namespace folio::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kPools[] =
    R"({"pools":[{"pool_id":1,"free_pages":"7","name":"b"},)"
    R"({"pool_id":2,"free_pages":"30","name":"a"}],"ratio":0.1,"big":18446744073709551615})";

std::string Result(const std::string& expression, const std::string& json = kPools) {
  const auto query = JsonQuery::Compile(expression);
  if (!query.ok()) return std::string(query.status().message());
  const auto result = (*query)->Apply(json);
  return result.ok() ? *result : std::string(result.status().message());
}

TEST(JsonQuery, GivesWhatTheExpressionSelects) {
  for (const auto& [expression, result] : std::vector<std::pair<std::string, std::string>>{
           {"pools[].pool_id", "[1,2]"},
           {"pools[?name=='a'].free_pages | [0]", R"("30")"},
           {"pools[?pool_id>`1`].name", R"(["a"])"},
           {"pools[7]", "null"},
           {"length(pools)", "2"},
           {"sum(pools[].to_number(free_pages))", "37"},
           {"avg(pools[].to_number(free_pages))", "18.5"},
           {"max_by(pools, &to_number(free_pages)).name", R"("a")"},
           {"ratio", "0.1"},
           {"`6455555524`", "6455555524"},
           {"pools[-1].[pool_id, '99999999999', a99999999999]", R"([2,"99999999999",null])"},
           {"big", "18446744073709551615"},
           {"pools[0].\"name\"", R"("b")"},
       }) {
    EXPECT_EQ(Result(expression), result) << expression;
  }
}

TEST(JsonQuery, PropertiesKeepTheirOrder) {
  EXPECT_EQ(Result("pools[0]"), R"({"pool_id":1,"free_pages":"7","name":"b"})") << "of the answer";
  EXPECT_EQ(Result("pools[0].{z: name, a: pool_id}"), R"({"z":"b","a":1})") << "of the expression";
  EXPECT_EQ(Result("pools[0].{name: name, pool_id: pool_id, free_pages: free_pages}"),
            R"({"name":"b","pool_id":1,"free_pages":"7"})")
      << "the expression comes first";
  EXPECT_EQ(Result("merge(pools[0], {a: ratio})"),
            R"({"a":0.1,"free_pages":"7","name":"b","pool_id":1})")
      << "of the alphabet";
}

TEST(JsonQuery, MistakesHaveAPlaceAndAdvice) {
  for (const auto& [expression, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "at character 1, its end: complete the expression"},
           {"pools[", "at character 7, its end"},
           {"pools[?name='a']", "at character 12, before \"='a']\": '=' is not valid. Did you"},
           {"pools[?pool_id > 1]",
            "before \"1]\": write a text in single quotes, as in 'a', and a"},
           {"pools[?name=='a'", "at character 17, its end: Expected ']'"},
           {"pools[].{name}", "before \"}\": write pairs of a name and a value, as in {id: seq"},
           {"pools pools", "at character 7, before \"pools\": write an operator"},
           {"'ü' | pools[", "at character 13, its end"},
           {"len(pools)", "there is no function len. Use one of abs, avg, ceil, contains"},
           {"length()", "length(): it has 0 arguments and takes 1"},
           {"pools[].length(name, name)", "length(): it has 2 arguments and takes 1"},
           {"pools[::0]", "the step of a slice may not be 0"},
           {"pools[6455555524]",
            "before \"6455555524]\": a place in a list has to be at most 2147"},
           {"pools[-²]", "at character 8, before \"²]\": a place in a list"},
           {"\xff", "the expression is not UTF-8 (byte 0)"},
           {std::string(5000, '('), "it has 5000 bytes, and at most 4096 are taken"},
       }) {
    const auto query = JsonQuery::Compile(expression);
    ASSERT_FALSE(query.ok()) << expression;
    EXPECT_TRUE(IsUsageError(query.status()));
    EXPECT_THAT(query.status().message(), HasSubstr(words)) << expression;
  }
}

TEST(JsonQuery, AllItsFunctionsExist) {
  const std::string all = Result("no_such()");
  const size_t begin = all.find("abs");
  ASSERT_NE(begin, std::string::npos);
  std::string name;
  int count = 0;
  for (const char c : all.substr(begin) + ",") {
    if (c == ' ') continue;
    if (c != ',') {
      name += c;
      continue;
    }
    EXPECT_THAT(Result(name + "()"), HasSubstr(name + "(): it has 0 arguments")) << name;
    name.clear();
    ++count;
  }
  EXPECT_EQ(count, 26);
}

TEST(JsonQuery, AFunctionThatDoesNotFitIsAnError) {
  for (const auto& [expression, words] : std::vector<std::pair<std::string, std::string>>{
           {"pools[0] | length(pool_id)",
            "--query does not fit the answer: at character 18, before \"(pool_id)\": length(): its "
            "argument 1 has the type number and not array or object or string"},
           {"sum(pools[].free_pages)", "Numbers of 64 bits are strings, which to_number(x) turns"},
           {"sort_by(pools, &nothing)", "sort_by(): the expression of argument 2 gives null"},
           {"&pools", "its result is an expression and no value. Leave out the &"},
       }) {
    const auto query = JsonQuery::Compile(expression);
    ASSERT_TRUE(query.ok()) << expression << ": " << query.status();
    const auto result = (*query)->Apply(kPools);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(IsUsageError(result.status()));
    EXPECT_THAT(result.status().message(), HasSubstr(words)) << expression;
  }
  EXPECT_THAT(Result("@", "{"), HasSubstr("the answer is not JSON"));
}

// The deepest ones that are short enough. Each level is a call in the parser or the interpreter.
TEST(JsonQuery, DeepExpressionsDoNotEndTheProcess) {
  const std::string open(2000, '(');
  EXPECT_EQ(Result(open + "ratio" + std::string(2000, ')')), "0.1");
  EXPECT_EQ(Result(std::string(4001, '!') + "ratio"), "false");
  EXPECT_THAT(Result(std::string(4096, '[')), HasSubstr("at character 4097"));
  std::string chain = "@";
  while (chain.size() < 4090) chain += ".a";
  EXPECT_EQ(Result(chain), "null");
  std::string lists;
  while (lists.size() < 4094) lists += "[]";
  EXPECT_EQ(Result(lists), "null");
}

}  // namespace
}  // namespace folio::cli
