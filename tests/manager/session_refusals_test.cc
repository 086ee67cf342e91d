// SessionTranslator: everything that is refused, and that a refusal changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "tests/manager/session_translator_harness.h"

namespace folio::manager {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionTranslatorTest, RefusedOpensNameTheFieldAndTakeNothing) {
  using Change = std::function<void(v1::OpenSequence&)>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    Change change;
    const char* words;
  } kCases[] = {
      {[](auto& o) { o.clear_prompt_tokens(); }, "prompt_tokens"},
      {[](auto& o) { o.set_max_new_tokens(UINT32_MAX); }, "max_new_tokens"},
      {[](auto& o) { o.mutable_cache()->mutable_policy()->clear_kind(); },
       "cache.policy: no known kind"},
      {[](auto& o) { o.mutable_cache()->clear_budget_tokens(); }, "budget_tokens"},
      {[](auto& o) { o.mutable_cache()->set_budget_tokens(50); }, "budget_tokens 50"},
      {[](auto& o) { o.mutable_cache()->set_budget_tokens(16); }, "do not fit budget_tokens 16"},
      {[](auto& o) { o.mutable_cache()->set_sink_tokens(5); }, "sink_tokens 5"},
      {[](auto& o) { o.mutable_cache()->set_recent_tokens(17); }, "recent_tokens 17"},
      {[](auto& o) { o.mutable_cache()->set_sink_tokens(4294967280U); }, "sink_tokens 4294967280"},
      {[](auto& o) { o.mutable_cache()->mutable_policy()->mutable_full(); },
       "budget_tokens 48 does not go with policy full"},
      {[](auto& o) { o.mutable_cache()->set_eviction_mode(static_cast<v1::EvictionMode>(9)); },
       "cache.eviction_mode: unknown value 9"},
      {[](auto& o) { o.mutable_cache()->set_compaction(static_cast<v1::Compaction>(9)); },
       "cache.compaction: unknown value 9"},
      {[](auto& o) { o.mutable_cache()->set_layers(static_cast<v1::Layers>(9)); },
       "cache.layers: unknown value 9"},
      {[](auto& o) { o.mutable_cache()->set_prompt_share(std::nanf("")); },
       "prompt_share nan must be"},
      {[](auto& o) { o.mutable_cache()->set_protect_ends(0.5F); }, "protect_ends 0.5 must be"},
      {[](auto& o) { o.mutable_cache()->set_segments(65); }, "segments 65 must be"},
      {[](auto& o) { o.mutable_cache()->set_compaction_stride_tokens(64); },
       "compaction_stride_tokens 64 is for compaction streamed"},
      {[](auto& o) {
         o.mutable_cache()->set_compaction(v1::COMPACTION_STREAMED);
         o.mutable_cache()->set_compaction_stride_tokens(40);
       },
       "compaction_stride_tokens 40 is not a multiple of the page size 16"},
      {[](auto& o) { o.mutable_sampling()->set_temperature(-1); }, "sampling.temperature"},
      {[=](auto& o) { o.mutable_sampling()->set_temperature(nan); }, "sampling.temperature"},
      {[](auto& o) {
         o.mutable_sampling()->set_temperature(std::numeric_limits<float>::infinity());
       },
       "sampling.temperature"},
      {[](auto& o) { o.mutable_sampling()->set_top_p(0); }, "sampling.top_p"},
      {[](auto& o) { o.mutable_sampling()->set_top_p(1.5); }, "sampling.top_p"},
      {[=](auto& o) { o.mutable_sampling()->set_top_p(nan); }, "sampling.top_p"},
      {[](auto& o) { o.mutable_sampling()->set_min_p(-0.1F); }, "sampling.min_p"},
      {[](auto& o) { o.mutable_sampling()->set_min_p(1.1F); }, "sampling.min_p"},
      {[](auto& o) { o.mutable_sampling()->set_temperature(1); }, "sampling.seed"},
      {[](auto& o) { o.set_label(std::string(257, 'l')); }, "label: has 257 bytes"},
  };
  for (const auto& c : kCases) {
    v1::OpenSequence open = EvictingOpen(80, 16);
    c.change(open);
    const v1::OpenResult refused = OpenOne(open);
    EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kInvalidArgument)) << c.words;
    EXPECT_THAT(refused.message(), HasSubstr(c.words));
    EXPECT_EQ(refused.layers_size(), 0);
  }
  EXPECT_EQ(free_pages(), kPages);
  EXPECT_EQ(cache::Inspector(coordinator_).pool().reserved.value(), 0U);
}

TEST_F(SessionTranslatorTest, ARefusedCommitAckOrCloseChangesNothing) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(80, 64));
  CommitOne(Commit(opened, 32, 0));
  const auto snapshot = [&] {
    auto detail = cache::Inspector(coordinator_).sequence(SequenceId(opened.sequence_id()));
    EXPECT_TRUE(detail.ok());
    std::string text =
        absl::StrCat(detail->info.logical_length.value(), " ", detail->info.resident.value(), " ",
                     detail->info.held_pages.value(), " ", detail->info.reserved_pages.value(), " ",
                     detail->info.plan_epoch.value(), " ", free_pages());
    for (const auto& layer : detail->layers) {
      for (const PageRef& ref : layer.pages) {
        absl::StrAppend(&text, " ", ref.page.value(), ":", ref.generation.value());
      }
    }
    return text;
  };
  const std::string before = snapshot();

  const auto bad_commit = [&](const std::function<void(v1::CommitTokens&)>& change) {
    v1::SessionRequest request;
    v1::CommitTokens commit = Commit(opened, 48, 0);
    change(commit);
    *request.add_commit() = std::move(commit);
    return request;
  };
  v1::SessionRequest bad_ack;
  bad_ack.add_ack()->set_sequence_id(opened.sequence_id());
  bad_ack.mutable_ack(0)->set_lease_epoch(opened.lease_epoch());
  bad_ack.mutable_ack(0)->set_plan_epoch(1);
  v1::SessionRequest bad_close;
  bad_close.add_close()->set_sequence_id(opened.sequence_id());
  bad_close.mutable_close(0)->set_lease_epoch(opened.lease_epoch() + 1);

  using absl::StatusCode;
  const struct {
    const char* name;
    v1::SessionRequest request;
    StatusCode code;
  } kCases[] = {
      {"backwards", bad_commit([](auto& c) { c.set_logical_length(31); }),
       StatusCode::kFailedPrecondition},
      {"past the pages", bad_commit([](auto& c) { c.set_logical_length(10000); }),
       StatusCode::kFailedPrecondition},
      {"epoch", bad_commit([](auto& c) { c.set_lease_epoch(99); }),
       StatusCode::kFailedPrecondition},
      {"unknown", bad_commit([](auto& c) { c.set_sequence_id(12345); }), StatusCode::kNotFound},
      {"stale page", bad_commit([](auto& c) {
         c.add_filled()->set_page(0);
         c.add_filled()->set_page(1);
       }),
       StatusCode::kFailedPrecondition},
      {"ack of no plan", bad_ack, StatusCode::kFailedPrecondition},
      {"close with a stale epoch", bad_close, StatusCode::kFailedPrecondition},
  };
  for (const auto& c : kCases) {
    const v1::SessionReply reply = Must(c.request);
    ASSERT_EQ(reply.failed_size(), 1) << c.name;
    EXPECT_EQ(reply.failed(0).code(), static_cast<int>(c.code))
        << c.name << ": " << reply.failed(0).message();
    EXPECT_FALSE(reply.failed(0).message().empty()) << c.name;
    EXPECT_EQ(snapshot(), before) << c.name;
  }
  EXPECT_EQ(CommitOne(Commit(opened, 48, 0)).failed_size(), 0);
}

TEST_F(SessionTranslatorTest, BreakingTheProtocolEndsTheSession) {
  v1::SessionRequest request;
  request.set_step(5);
  ASSERT_TRUE(testing::TranslateMessage(translator_, request).ok());
  const auto repeated = testing::TranslateMessage(translator_, request);
  EXPECT_EQ(repeated.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(repeated.status().message()), HasSubstr("step: 5 does not follow 5"));
}

TEST_F(SessionTranslatorTest, AFencedWorkerGetsNoFurther) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(16, 16));
  coordinator_.FenceWorker(worker_, /*quiesced=*/false);
  v1::SessionRequest request;
  request.set_step(100);
  *request.add_commit() = Commit(opened, 16, 1);
  const auto reply = testing::TranslateMessage(translator_, request);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("fenced"));
}

}  // namespace
}  // namespace folio::manager
