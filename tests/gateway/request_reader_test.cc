// Bytes become requests however they are cut. Malformed ones are rows of
// tests/e2e/test_gateway_errors.py.
#include "services/gateway/http/request_reader.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace folio::gateway {
namespace {

constexpr char kPost[] =
    "POST /v1/x?y=z HTTP/1.1\r\nHost: a\r\nX-Name:  value \r\nContent-Length: 4\r\n\r\nbody";

// Feeds the text in pieces, and returns what was not used.
std::string FeedIn(const std::string& text, size_t piece, RequestReader* reader) {
  std::string input;
  for (size_t at = 0; at < text.size(); at += piece) {
    input += text.substr(at, piece);
    input.erase(0, reader->Feed(input));
  }
  return input;
}

TEST(RequestReader, ReadsHoweverTheBytesAreCut) {
  for (const size_t piece : {1, 2, 5, 1000}) {
    RequestReader reader({});
    EXPECT_EQ(FeedIn(absl::StrCat("\r\n", kPost, "GET /next"), piece, &reader), "GET /next");
    ASSERT_TRUE(reader.done()) << piece;
    const HttpRequest request = reader.Take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/x");
    EXPECT_EQ(request.Field("x-nAME"), "value");
    EXPECT_EQ(request.Field("none"), "");
    EXPECT_EQ(request.body, "body");
    EXPECT_TRUE(request.keep_alive);
    EXPECT_FALSE(request.version_1_0);
  }
}

// Beast's own assertions check this, in builds that have them, as those with sanitizers.
TEST(RequestReader, ReadsChunksHoweverTheBytesAreCut) {
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body : {"", "0123"}) {
    const std::string chunk = body.empty() ? "" : absl::StrCat("4\r\n", body, "\r\n");
    for (const size_t piece : {1, 2, 3, 4, 5, 1000}) {
      RequestReader reader({});
      EXPECT_EQ(FeedIn(absl::StrCat(head, chunk, "0\r\n\r\n"), piece, &reader), "");
      ASSERT_TRUE(reader.done()) << piece;
      EXPECT_EQ(reader.Take().body, body);
    }
  }
}

TEST(RequestReader, KnowsWhenAClientWaits) {
  RequestReader reader({});
  FeedIn("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n", 9,
         &reader);
  EXPECT_TRUE(reader.expects_continue());
  EXPECT_FALSE(reader.done());
  FeedIn("body", 4, &reader);
  EXPECT_FALSE(reader.expects_continue());
  EXPECT_TRUE(reader.done());
}

TEST(RequestReader, ReadsOldRequests) {
  RequestReader reader({});
  FeedIn("GET / HTTP/1.0\r\n\r\n", 100, &reader);
  ASSERT_TRUE(reader.done());
  const HttpRequest request = reader.Take();
  EXPECT_TRUE(request.version_1_0);
  EXPECT_FALSE(request.keep_alive);
}

TEST(RequestReader, BoundsTheBodyWithoutReadingIt) {
  RequestReader reader({.body_bytes = 3});
  FeedIn(kPost, 70, &reader);
  ASSERT_TRUE(reader.refusal().has_value());
  EXPECT_EQ(reader.refusal()->status, 413);
}

}  // namespace
}  // namespace folio::gateway
