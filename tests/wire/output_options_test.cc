#include "services/wire/output_options.h"

#include <gtest/gtest.h>

#include "folio/v1/kv_manager.pb.h"

namespace folio::wire {
namespace {

TEST(OutputOptions, ComeBackAsTheyWere) {
  OutputOptions all;
  all.stop = {"END", "\xc3\xa9"};
  all.ignore_eos = true;
  all.logprobs = 0;
  all.min_tokens = 3;
  all.stop_tokens = {TokenId(5), TokenId(0)};
  for (const auto kind : {OutputFormat::Kind::kJsonSchema, OutputFormat::Kind::kRegex,
                          OutputFormat::Kind::kGrammar}) {
    all.format = {kind, "of it"};
    EXPECT_EQ(ParseOutputOptions(Serialize(all)), all);
  }
  for (const OutputOptions& options : {OutputOptions{}, all}) {
    EXPECT_EQ(ParseOutputOptions(Serialize(options)), options);
  }
}

TEST(OutputOptions, AreTheProtocolsMessage) {
  OutputOptions options;
  options.stop = {"a"};
  options.logprobs = 3;
  v1::OutputOptions message;
  ASSERT_TRUE(message.ParseFromString(Serialize(options)));
  ASSERT_EQ(message.stop_size(), 1);
  EXPECT_EQ(message.stop(0), "a");
  EXPECT_FALSE(message.ignore_eos());
  EXPECT_EQ(message.logprobs(), 3u);
}

TEST(OutputOptions, OtherBytesAreRefused) {
  EXPECT_FALSE(ParseOutputOptions("\x0a\x05"
                                  "ab")
                   .has_value());
}

}  // namespace
}  // namespace folio::wire
