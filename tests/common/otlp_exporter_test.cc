// The exporter with a real collector in this process, over gRPC.
#include "services/tracing/otlp_exporter.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/common/collector.h"
#include "tests/common/temp_dir.h"

namespace folio::tracing {
namespace {

using ::testing::ElementsAre;

class OtlpExporterTest : public ::testing::Test {
 protected:
  ExporterOptions Options() {
    ExporterOptions options;
    options.collector = address_;
    options.delay = absl::Milliseconds(5);
    options.first_pause = options.longest_pause = absl::Milliseconds(20);
    return options;
  }
  std::unique_ptr<OtlpExporter> Start(ExporterOptions options) {
    return std::make_unique<OtlpExporter>(std::move(options), ThisProcess("test"));
  }

  testing::TempDir directory_;
  const std::string address_ = absl::StrCat("unix:", directory_.path(), "/collector.sock");
};

std::string TextOf(const google::protobuf::RepeatedPtrField<otlp::common::v1::KeyValue>& pairs) {
  std::string text;
  for (const auto& pair : pairs) absl::StrAppend(&text, pair.ShortDebugString(), "\n");
  return text;
}

TEST_F(OtlpExporterTest, SendsAllOfASpan) {
  Collector collector(address_);
  const auto exporter = Start(Options());
  Span span = Named("work");
  span.context.own.state = "a=1";
  span.context.parent = NewSpanId();
  span.context.parent_is_remote = true;
  span.kind = SpanKind::kServer;
  span.start = SteadyNow() - absl::Milliseconds(250);
  span.end = span.start + absl::Nanoseconds(123456789);
  span.AddText("text", std::string(kMostText + 50, 'x'));
  span.AddText("none", "");
  span.Add("number", int64_t{-7});
  span.Add("real", 2.5);
  span.Add("truth", true);
  span.Add("list", std::vector<std::string>{"a", "b"});
  span.events.push_back({span.start + absl::Milliseconds(1), "event"});
  span.dropped_events = 3;
  span.AddText("path", "/\xff");
  span.error = "why\xc3";
  exporter->Push({span});
  AwaitTrue([&] { return !collector.requests().empty(); });

  const Collector::Request request = collector.requests().front();
  ASSERT_EQ(request.resource_spans_size(), 1);
  const std::string process = TextOf(request.resource_spans(0).resource().attributes());
  for (const char* key :
       {"service.name", "service.version", "service.instance.id", "process.pid"}) {
    EXPECT_THAT(process, ::testing::HasSubstr(absl::StrCat("\"", key, "\"")));
  }
  const otlp::trace::v1::Span& sent = request.resource_spans(0).scope_spans(0).spans(0);
  EXPECT_EQ(sent.trace_id(),
            std::string(span.context.own.trace_id.begin(), span.context.own.trace_id.end()));
  EXPECT_EQ(sent.span_id().size(), 8U);
  EXPECT_EQ(sent.parent_span_id().size(), 8U);
  EXPECT_EQ(sent.flags(), 0x301U);
  EXPECT_EQ(sent.trace_state(), "a=1");
  EXPECT_EQ(sent.kind(), otlp::trace::v1::Span::SPAN_KIND_SERVER);
  EXPECT_EQ(sent.end_time_unix_nano() - sent.start_time_unix_nano(), 123456789U);
  const auto now = static_cast<uint64_t>(absl::ToUnixNanos(absl::Now()));
  EXPECT_LT(sent.end_time_unix_nano(), now);
  EXPECT_GT(sent.end_time_unix_nano(), now - 60'000'000'000U);
  EXPECT_EQ(sent.events(0).time_unix_nano() - sent.start_time_unix_nano(), 1'000'000U);
  EXPECT_EQ(sent.dropped_events_count(), 3U);
  EXPECT_EQ(sent.status().code(), otlp::trace::v1::Status::STATUS_CODE_ERROR);
  EXPECT_EQ(sent.status().message(), "why\xEF\xBF\xBD");
  EXPECT_EQ(TextOf(sent.attributes()),
            absl::StrCat("key: \"text\" value { string_value: \"", std::string(kMostText, 'x'),
                         "\" }\n"
                         "key: \"number\" value { int_value: -7 }\n"
                         "key: \"real\" value { double_value: 2.5 }\n"
                         "key: \"truth\" value { bool_value: true }\n"
                         "key: \"list\" value { array_value { values { string_value: \"a\" } "
                         "values { string_value: \"b\" } } }\n"
                         "key: \"path\" value { string_value: \"/\\357\\277\\275\" }\n"));
  AwaitTrue([&] { return exporter->counts().exported == 1; });
}

TEST_F(OtlpExporterTest, FullBatchesDoNotWait) {
  Collector collector(address_);
  ExporterOptions options = Options();
  options.delay = kPatience;
  options.batch = 10;
  const auto exporter = Start(options);
  for (int i = 0; i < 7; ++i) exporter->Push(Spans(3));
  AwaitTrue([&] { return exporter->counts().exported == 12; });
  // The rest is not a batch.
  exporter->Shutdown(kPatience);
  EXPECT_EQ(exporter->counts().exported, 21U);
  std::vector<int> sizes;
  for (const auto& request : collector.requests()) {
    sizes.push_back(request.resource_spans(0).scope_spans(0).spans_size());
  }
  EXPECT_EQ(sizes.front(), 12);
}

TEST_F(OtlpExporterTest, ACollectorThatIsAwayIsTriedAgain) {
  const auto exporter = Start(Options());
  exporter->Push({Named("early")});
  AwaitTrue([&] { return exporter->counts().failed_calls > 1; });
  EXPECT_EQ(exporter->counts().exported, 0U);
  Collector collector(address_);
  exporter->Push({Named("late")});
  AwaitTrue([&] { return exporter->counts().exported == 2; });
  EXPECT_THAT(collector.Names(), ElementsAre("early", "late"));
  EXPECT_EQ(exporter->counts().failed, 0U);
}

TEST_F(OtlpExporterTest, ABatchIsDroppedWhenThereIsNoHope) {
  Collector collector(address_);
  const auto exporter = Start(Options());
  uint64_t dropped = 0;
  for (const auto code : {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::UNIMPLEMENTED,
                          grpc::StatusCode::RESOURCE_EXHAUSTED}) {
    collector.Answer(grpc::Status(code, "no"));
    const int before = collector.calls;
    exporter->Push({Named("refused")});
    ++dropped;
    AwaitTrue([&] { return exporter->counts().failed == dropped; });
    EXPECT_EQ(collector.calls - before, 1) << code;
  }
  // It says when to come again.
  collector.Answer({grpc::StatusCode::RESOURCE_EXHAUSTED, "later",
                    "\n\x28type.googleapis.com/google.rpc.RetryInfo"});
  exporter->Push({Named("taken")});
  const int before = collector.calls;
  AwaitTrue([&] { return collector.calls > before + 1; });
  collector.Answer(grpc::Status::OK);
  AwaitTrue([&] { return exporter->counts().exported == 1; });
  EXPECT_THAT(collector.Names(), ElementsAre("taken"));
}

TEST_F(OtlpExporterTest, ABatchIsGivenUpInTheEnd) {
  ExporterOptions options = Options();
  options.give_up = absl::Milliseconds(100);
  const auto exporter = Start(options);
  exporter->Push(Spans(4));
  AwaitTrue([&] { return exporter->counts().failed == 4; });
  EXPECT_GT(exporter->counts().failed_calls, 1U);
}

TEST_F(OtlpExporterTest, RejectedSpansAreCounted) {
  Collector collector(address_);
  collector.rejects = 2;
  const auto exporter = Start(Options());
  exporter->Push(Spans(5));
  AwaitTrue([&] { return exporter->counts().exported == 3; });
  EXPECT_EQ(exporter->counts().rejected, 2U);
}

TEST_F(OtlpExporterTest, ASilentCollectorFillsTheQueueAndHoldsNoRequestUp) {
  Collector collector(address_);
  collector.silent = true;
  ExporterOptions options = Options();
  options.most_waiting = 100;
  options.batch = 10;
  const auto exporter = Start(options);
  exporter->Push(Spans(10));
  AwaitTrue([&] { return collector.calls == 1; });
  const SteadyTime start = SteadyNow();
  for (int i = 0; i < 50; ++i) exporter->Push(Spans(3));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(5));
  // Requests are taken whole.
  EXPECT_EQ(exporter->counts().queue_full, 51U);
  collector.Answer(grpc::Status::OK);
  AwaitTrue([&] { return exporter->counts().exported == 109; });
}

TEST_F(OtlpExporterTest, ACallThatTakesTooLongIsTriedAgain) {
  Collector collector(address_);
  collector.silent = true;
  ExporterOptions options = Options();
  options.timeout = absl::Milliseconds(50);
  const auto exporter = Start(options);
  exporter->Push(Spans(1));
  AwaitTrue([&] { return collector.calls > 2; });
  collector.Answer(grpc::Status::OK);
  AwaitTrue([&] { return exporter->counts().exported == 1; });
}

TEST_F(OtlpExporterTest, TheEndSendsWhatWaits) {
  Collector collector(address_);
  ExporterOptions options = Options();
  options.delay = kPatience;
  options.batch = 10;
  const auto exporter = Start(options);
  exporter->Push(Spans(1));
  for (int i = 0; i < 9; ++i) exporter->Push(Spans(4));
  exporter->Shutdown(kPatience);
  EXPECT_EQ(exporter->counts().exported, 37U);
  EXPECT_EQ(collector.Names().size(), 37U);
  exporter->Push(Spans(2));
  EXPECT_EQ(exporter->counts().queue_full, 2U);
}

TEST_F(OtlpExporterTest, TheEndIsBounded) {
  Collector collector(address_);
  collector.silent = true;
  const auto exporter = Start(Options());
  exporter->Push(Spans(3));
  AwaitTrue([&] { return collector.calls == 1; });
  exporter->Push(Spans(4));
  const SteadyTime start = SteadyNow();
  exporter->Shutdown(absl::Milliseconds(200));
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(200));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(8));  // less than the call's own 10 s
  AwaitTrue([&] { return exporter->counts().failed == 7; });
}

TEST_F(OtlpExporterTest, TheEndWaitsForNoPause) {
  ExporterOptions options = Options();
  options.first_pause = options.longest_pause = absl::Seconds(30);
  const auto exporter = Start(options);
  exporter->Push(Spans(3));
  AwaitTrue([&] { return exporter->counts().failed_calls == 1; });
  const SteadyTime start = SteadyNow();
  exporter->Shutdown(absl::Seconds(20));
  EXPECT_LT(SteadyNow() - start, absl::Seconds(20));
  EXPECT_EQ(exporter->counts().failed, 3U);
}

TEST_F(OtlpExporterTest, ManyThreadsPush) {
  Collector collector(address_);
  ExporterOptions options = Options();
  options.batch = 64;
  const auto exporter = Start(options);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) exporter->Push(Spans(2));
    });
  }
  for (std::thread& thread : threads) thread.join();
  exporter->Shutdown(kPatience);
  EXPECT_EQ(exporter->counts().exported, 800U);
  EXPECT_EQ(exporter->counts().queue_full, 0U);
}

}  // namespace
}  // namespace folio::tracing
