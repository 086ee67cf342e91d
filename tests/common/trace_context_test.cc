#include "services/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "services/tracing/tracer.h"

namespace folio::tracing {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kSpan[] = "00f067aa0ba902b7";
const std::string kValid = std::string("00-") + kTrace + "-" + kSpan + "-01";

struct Row {
  std::string text;
  bool valid = false;
  bool sampled = false;
};

TEST(TraceContextTest, ReadsWhatTheSpecificationAllows) {
  const std::string zero_trace(32, '0'), zero_span(16, '0');
  const std::string ids = std::string("-") + kTrace + "-" + kSpan;
  const std::vector<Row> rows = {
      {kValid, true, true},
      {"00" + ids + "-00", true, false},
      // Other bits of the flags say nothing to this version.
      {"00" + ids + "-fe", true, false},
      {"00" + ids + "-03", true, true},
      // A later version may have more fields behind a dash.
      {"01" + ids + "-01", true, true},
      {"cc" + ids + "-01-what-the-future-will-be-like", true, true},
      {"fe" + ids + "-00-", true, false},
      {"cc" + ids + "-01.what-the-future-will-be-like"},
      {"01" + ids + "-010"},
      {"ff" + ids + "-01"},
      {kValid + "-"},
      {kValid + "0"},
      {kValid.substr(0, 54)},
      {""},
      {"00"},
      {"00-" + zero_trace + "-" + kSpan + "-01"},
      {"00-" + std::string(kTrace) + "-" + zero_span + "-01"},
      {"0G" + ids + "-01"},
      {"00" + ids + "-0x"},
      {"00" + ids + "-0A"},
      {"00-4BF92F3577b34da6a3ce929d0e0e4736-" + std::string(kSpan) + "-01"},
      {"00-4bf92f3577b34da6a3ce929d0e0e473g-" + std::string(kSpan) + "-01"},
      {"00_" + std::string(kTrace) + "-" + kSpan + "-01"},
      {"00-" + std::string(kTrace) + "_" + kSpan + "-01"},
      {"00" + ids + "_01"},
      {" " + kValid},
      {"00-" + std::string(kTrace).substr(1) + "--" + kSpan + "-01"},
      {std::string(55, '-')},
      {std::string(55, '\0')},
  };
  for (const Row& row : rows) {
    const auto context = ParseTraceContext(row.text, "a=1");
    ASSERT_EQ(context.has_value(), row.valid) << row.text;
    if (!row.valid) continue;
    EXPECT_EQ(HexOf(context->trace_id), kTrace) << row.text;
    EXPECT_EQ(context->sampled, row.sampled) << row.text;
    EXPECT_EQ(context->state, "a=1");
    EXPECT_EQ(FormatTraceParent(*context), "00" + ids + (row.sampled ? "-01" : "-00"));
  }
}

TEST(TraceContextTest, PassesOnAStateThatIsShort) {
  const auto state = [](const std::string& given) {
    return ParseTraceContext(kValid, given)->state;
  };
  EXPECT_EQ(state("congo=t61rcWkgMzE,rojo=00f067"), "congo=t61rcWkgMzE,rojo=00f067");
  const std::string longest(kMostTraceState, 'a');
  EXPECT_EQ(state(longest), longest);
  EXPECT_EQ(state(longest + "a"), "");
  EXPECT_EQ(state("a=\n"), "");
  EXPECT_EQ(state("a=\xc3\xa9"), "");
}

TEST(TraceContextTest, IdsAreAllDifferent) {
  std::set<std::string> traces;
  std::set<SpanId> spans;
  for (int i = 0; i < 10'000; ++i) {
    traces.insert(HexOf(NewTraceId()));
    spans.insert(NewSpanId());
  }
  EXPECT_EQ(traces.size(), 10'000U);
  EXPECT_EQ(spans.size(), 10'000U);
  EXPECT_EQ(spans.count(SpanId()), 0U);
}

TEST(SamplingTest, TheIdDecidesByTheShare) {
  constexpr int kTries = 20'000;
  for (const double share : {0.0, 0.01, 0.25, 0.9, 1.0}) {
    int sampled = 0;
    for (int i = 0; i < kTries; ++i) {
      const TraceId id = NewTraceId();
      const bool chosen = IsSampled(id, share);
      sampled += chosen ? 1 : 0;
      EXPECT_EQ(IsSampled(id, share), chosen);
      // A program that records more traces records those too.
      if (chosen) {
        EXPECT_TRUE(IsSampled(id, std::min(1.0, share + 0.1)));
      }
    }
    // Seven standard deviations of the largest share's.
    EXPECT_NEAR(sampled, share * kTries, 500) << share;
  }
  TraceId last;
  last.fill(0xff);
  EXPECT_FALSE(IsSampled(last, 0.999));
  EXPECT_TRUE(IsSampled(last, 1));
  TraceId first = {};
  first[0] = 1;
  EXPECT_FALSE(IsSampled(first, 0));
  EXPECT_TRUE(IsSampled(first, 1e-9));
}

ExporterOptions Unreachable() {
  ExporterOptions options;
  options.collector = "unix:/nowhere/collector.sock";
  return options;
}

TEST(TracerTest, FollowsTheCallerAndSamplesWhatBeginsHere) {
  Tracer none(0, Unreachable(), ThisProcess("test")), all(1, Unreachable(), ThisProcess("test"));
  for (Tracer* tracer : {&none, &all}) {
    for (const bool sampled : {false, true}) {
      TraceContext caller = *ParseTraceContext(kValid, "a=1");
      caller.sampled = sampled;
      const SpanContext begun = tracer->Begin(caller);
      EXPECT_EQ(begun.own.sampled, sampled);
      EXPECT_EQ(begun.own.trace_id, caller.trace_id);
      EXPECT_EQ(begun.own.state, "a=1");
      EXPECT_EQ(begun.parent, caller.span_id);
      EXPECT_TRUE(begun.parent_is_remote);
      EXPECT_NE(begun.own.span_id, caller.span_id);
    }
    const SpanContext root = tracer->Begin(std::nullopt);
    EXPECT_EQ(root.own.sampled, tracer == &all);
    EXPECT_FALSE(root.parent.has_value());
    EXPECT_NE(root.own.trace_id, TraceId());
  }
}

TEST(TracerTest, IsNullWithoutACollector) { EXPECT_EQ(Tracer::Start({}, "test"), nullptr); }

}  // namespace
}  // namespace folio::tracing
