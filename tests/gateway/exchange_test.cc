// The answers of handlers, as bytes for a connection.
#include "services/gateway/http/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace folio::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

HttpRequest Get() {
  HttpRequest request;
  request.method = "GET";
  return request;
}

class ExchangeTest : public ::testing::Test {
 protected:
  int wakes_ = 0;
  Exchange exchange_{Get(), [this] { ++wakes_; }};
};

TEST_F(ExchangeTest, RepliesOnce) {
  exchange_.Reply({.status = 404, .fields = {{"A", "b"}}, .body = "{}"});
  exchange_.Reply({.status = 200});
  const Exchange::Output output = exchange_.Take();
  EXPECT_TRUE(output.last);
  EXPECT_THAT(output.bytes, StartsWith("HTTP/1.1 404 Not Found\r\nDate: "));
  EXPECT_THAT(output.bytes, HasSubstr("\r\nContent-Length: 2\r\n"));
  EXPECT_THAT(output.bytes, EndsWith("\r\nA: b\r\n\r\n{}"));
  EXPECT_EQ(wakes_, 1);
  EXPECT_TRUE(exchange_.keep_alive());
}

TEST_F(ExchangeTest, StreamsInChunks) {
  exchange_.Begin({.type = "text/event-stream", .body = "one"});
  exchange_.Write("two");
  EXPECT_EQ(wakes_, 1);  // until the output is taken
  Exchange::Output output = exchange_.Take();
  EXPECT_THAT(output.bytes, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(output.bytes, EndsWith("\r\n\r\n6\r\nonetwo\r\n"));
  EXPECT_FALSE(output.last);
  exchange_.Write(std::string(16, 'x'));
  exchange_.End();
  exchange_.Write("late");
  output = exchange_.Take();
  EXPECT_EQ(output.bytes, "10\r\nxxxxxxxxxxxxxxxx\r\n0\r\n\r\n");
  EXPECT_TRUE(output.last);
  EXPECT_EQ(exchange_.Take().bytes, "0\r\n\r\n");
}

TEST_F(ExchangeTest, SaysWhenItIsBehind) {
  std::vector<bool> said;
  exchange_.Watch([] {}, [&said](bool behind) { said.push_back(behind); });
  exchange_.Begin({});
  exchange_.Write(std::string(Exchange::kBehindBytes, 'x'));
  exchange_.Write("more");
  EXPECT_THAT(said, ElementsAre(true));
  (void)exchange_.Take();
  EXPECT_THAT(said, ElementsAre(true, false));
}

TEST_F(ExchangeTest, TellsOnceThatTheClientLeft) {
  int gone = 0;
  exchange_.Watch([&gone] { ++gone; }, nullptr);
  exchange_.Leave();
  exchange_.Leave();
  EXPECT_EQ(gone, 1);
  exchange_.Reply({});
  exchange_.Write("x");
  EXPECT_EQ(wakes_, 0);
  exchange_.Watch([&gone] { ++gone; }, nullptr);  // too late
  EXPECT_EQ(gone, 2);
}

TEST_F(ExchangeTest, TellsNothingAfterTheAnswer) {
  int gone = 0;
  exchange_.Watch([&gone] { ++gone; }, nullptr);
  exchange_.Reply({});
  exchange_.Leave();
  EXPECT_EQ(gone, 0);
}

TEST(Exchange, EndsTheConnectionOfAnOldClientWithAStream) {
  HttpRequest old = Get();
  old.version_1_0 = true;
  Exchange exchange(old, [] {});
  exchange.Begin({.body = "one"});
  exchange.End();
  const std::string bytes = exchange.Take().bytes;
  EXPECT_THAT(bytes, EndsWith("\r\n\r\none"));
  EXPECT_THAT(bytes, HasSubstr("Connection: close"));
  EXPECT_THAT(bytes, Not(HasSubstr("chunked")));
  EXPECT_FALSE(exchange.keep_alive());
}

TEST(Exchange, TakesPiecesOfManyThreads) {
  Exchange exchange(Get(), [] {});
  exchange.Begin({});
  (void)exchange.Take();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&exchange] {
      for (int k = 0; k < 1000; ++k) exchange.Write("x");
    });
  }
  size_t chars = 0;
  const auto count = [&] {
    for (const char c : exchange.Take().bytes) chars += c == 'x' ? 1 : 0;
  };
  for (int i = 0; i < 100; ++i) count();
  for (std::thread& thread : threads) thread.join();
  count();
  EXPECT_EQ(chars, 4000);
}

}  // namespace
}  // namespace folio::gateway
