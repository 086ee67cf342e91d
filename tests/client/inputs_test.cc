// Short ways to write inputs give the messages of the protocol.
#include "services/client/inputs.h"

#include <gtest/gtest.h>

namespace folio::client {
namespace {

TEST(InputsTest, ChatsHaveFieldsToolsAndArguments) {
  const auto input =
      Chat({{"user", "Hi"}, {"tool", "3", R"({"tool_call_id": "1"})"}}, {"[]", "{}"});
  EXPECT_EQ(input.chat().messages(0).fields(), "");
  EXPECT_EQ(input.chat().messages(1).fields(), R"({"tool_call_id": "1"})");
  EXPECT_EQ(input.chat().tools(), "[]");
  EXPECT_EQ(input.chat().template_arguments(), "{}");
}

}  // namespace
}  // namespace folio::client
