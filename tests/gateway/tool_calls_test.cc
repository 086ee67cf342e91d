// Calls of tools in answers that come in any pieces.
#include "services/gateway/openai/tool_calls.h"

#include <gtest/gtest.h>

#include <string>

namespace folio::gateway {
namespace {

ToolCallReader::Found ReadIn(const std::string& answer, size_t piece) {
  ToolCallReader reader;
  ToolCallReader::Found all;
  const auto add = [&all](ToolCallReader::Found found) {
    all.text += found.text;
    for (ToolCall& call : found.calls) all.calls.push_back(std::move(call));
  };
  for (size_t at = 0; at < answer.size(); at += piece) add(reader.Feed(answer.substr(at, piece)));
  add(reader.Finish());
  EXPECT_EQ(reader.count(), all.calls.size());
  return all;
}

TEST(ToolCallReader, FindsCallsHoweverTheyAreCut) {
  const std::string answer =
      "I look < <tool it up.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"<b>\"}}\n"
      "</tool_call>\n<tool_call>{\"name\": \"g\"}</tool_call> done";
  for (const size_t piece : {1, 2, 3, 7, 1000}) {
    const ToolCallReader::Found found = ReadIn(answer, piece);
    EXPECT_EQ(found.text, "I look < <tool it up.\n\n done");
    ASSERT_EQ(found.calls.size(), 2);
    EXPECT_EQ(found.calls[0].name, "f");
    EXPECT_EQ(found.calls[0].arguments, "{\"a\":\"<b>\"}");
    EXPECT_EQ(found.calls[1].arguments, "{}");
    EXPECT_NE(found.calls[0].id, found.calls[1].id);
  }
}

TEST(ToolCallReader, LeavesWhatIsNoCallAsText) {
  for (const std::string text :
       {"plain", "a <tool", "<tool_call>not JSON</tool_call>",
        "<tool_call>{\"arguments\": {}}</tool_call>", "<tool_call>{\"name\": \"f\", \"argu"}) {
    const ToolCallReader::Found found = ReadIn(text, 3);
    EXPECT_EQ(found.text, text);
    EXPECT_TRUE(found.calls.empty());
  }
  // The closing tag may be missing, for example since it is a special token.
  const ToolCallReader::Found found =
      ReadIn("<tool_call>{\"name\": \"f\", \"arguments\": \"x\"}", 5);
  ASSERT_EQ(found.calls.size(), 1);
  EXPECT_EQ(found.calls[0].arguments, "x");
}

TEST(ToolCallReader, TakesAWholeAnswerAsACall) {
  ToolCallReader reader;
  reader.ExpectCall();
  EXPECT_EQ(reader.Feed("{\"name\": \"f\", ").text, "");
  EXPECT_TRUE(reader.Feed("\"arguments\": {}}").calls.empty());
  EXPECT_EQ(reader.Finish().calls.at(0).name, "f");
}

TEST(ToolCallReader, TagsInsideAWholeAnswerAreText) {
  ToolCallReader reader;
  reader.ExpectCall();
  EXPECT_TRUE(reader.Feed("{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>").calls.empty());
  EXPECT_TRUE(reader.Feed("<tool_call>\"}}").text.empty());
  EXPECT_EQ(reader.Finish().calls.at(0).arguments, R"({"a":"</tool_call><tool_call>"})");
}

TEST(ToolCallReader, AnAnswerThatIsCutOffIsACallOnceItsNameHasCome) {
  const auto read = [](const std::string& answer) {
    ToolCallReader reader;
    reader.ExpectCall();
    EXPECT_TRUE(reader.Feed(answer).calls.empty());
    return reader.Finish();
  };
  for (const std::string none : {"", "{", R"({"na)", R"({"name": "f)", R"({"name": "f")"}) {
    EXPECT_TRUE(read(none).calls.empty()) << none;
    EXPECT_EQ(read(none).text, none);
  }
  for (const std::string early : {R"({"name": "f",)", R"({"name": "f", "argum)"}) {
    EXPECT_EQ(read(early).calls.at(0).name, "f");
    EXPECT_EQ(read(early).calls.at(0).arguments, "");
  }
  const ToolCallReader::Found found = read(R"({"name": "f", "arguments": {"a": "b, c)");
  EXPECT_EQ(found.calls.at(0).arguments, R"({"a": "b, c)");
  EXPECT_EQ(found.text, "");
}

}  // namespace
}  // namespace folio::gateway
