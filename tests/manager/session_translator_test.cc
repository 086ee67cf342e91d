// SessionTranslator over a real coordinator, without gRPC: a whole life, and everything refused.
#include "services/manager/session_translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "services/common/clock.h"

namespace folio::manager {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kPages = 64;

cache::CoordinatorOptions Options(const std::vector<float>& board, const Clock& clock) {
  cache::CoordinatorOptions options;
  options.geometry.num_layers = 2;
  options.geometry.num_kv_heads = 1;
  options.geometry.head_dim = 8;
  options.geometry.page_tokens = 16;
  options.num_pages = PageCount(kPages);
  options.score_board = board.data();
  options.clock = &clock;
  return options;
}

class SessionTranslatorTest : public ::testing::Test {
 protected:
  v1::SessionReply Must(v1::SessionRequest request) {
    request.set_step(++step_);
    auto reply = translator_.Translate(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->step(), step_);
    const absl::Status whole = coordinator_.CheckInvariants();
    EXPECT_TRUE(whole.ok()) << whole;
    return *std::move(reply);
  }

  v1::OpenSequence EvictingOpen(uint32_t prompt, uint32_t max_new) {
    v1::OpenSequence open;
    open.set_request_tag(++tag_);
    for (uint32_t i = 0; i < prompt; ++i) open.add_prompt_tokens(1000 + i);
    open.set_max_new_tokens(max_new);
    open.mutable_cache()->mutable_policy()->mutable_paged_eviction();
    open.mutable_cache()->set_budget_tokens(48);
    return open;
  }

  v1::OpenResult OpenOne(const v1::OpenSequence& open) {
    v1::SessionRequest request;
    *request.add_open() = open;
    const v1::SessionReply reply = Must(request);
    EXPECT_EQ(reply.opened_size(), 1);
    EXPECT_EQ(reply.opened(0).request_tag(), open.request_tag());
    return reply.opened(0);
  }

  v1::CommitTokens Commit(const v1::OpenResult& opened, uint32_t length, uint32_t sampled) {
    v1::CommitTokens commit;
    commit.set_sequence_id(opened.sequence_id());
    commit.set_lease_epoch(opened.lease_epoch());
    commit.set_logical_length(length);
    for (uint32_t i = 0; i < sampled; ++i) commit.add_sampled_tokens(7);
    return commit;
  }

  v1::SessionReply CommitOne(const v1::CommitTokens& commit) {
    v1::SessionRequest request;
    *request.add_commit() = commit;
    return Must(request);
  }

  uint32_t free_pages() const { return coordinator_.pool().free.value(); }

  const RealClock clock_;
  std::vector<float> board_ = std::vector<float>(kPages * 16, 1.0F);
  cache::Coordinator coordinator_{Options(board_, clock_)};
  WorkerId worker_ = coordinator_.AddWorker("test");
  absl::Status gate_;
  SessionTranslator translator_{coordinator_, worker_, 16, [this] { return gate_; }};
  uint64_t step_ = 0;
  uint64_t tag_ = 0;
};

TEST_F(SessionTranslatorTest, CarriesASequenceFromOpenToClose) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(80, 64));
  ASSERT_EQ(opened.code(), 0) << opened.message();
  // Defaults are filled in, and each layer has the prompt's pages and one ahead.
  EXPECT_EQ(opened.cache().sink_tokens(), 16U);
  EXPECT_EQ(opened.cache().recent_tokens(), 16U);
  EXPECT_EQ(opened.cache().eviction_mode(), v1::EVICTION_MODE_PIPELINED);
  ASSERT_EQ(opened.layers_size(), 2);
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> table(2);
  for (int layer = 0; layer < 2; ++layer) {
    ASSERT_EQ(opened.layers(layer).pages_size(), 6);
    ASSERT_EQ(opened.layers(layer).generations_size(), 6);
    for (int i = 0; i < 6; ++i) {
      table[layer].emplace_back(opened.layers(layer).pages(i), opened.layers(layer).generations(i));
    }
  }
  // The second page of layer 1 is the best one after sinks and recent tokens.
  for (int token = 0; token < 16; ++token) board_[table[1][1].first * 16 + token] = 9.0F;
  for (int token = 0; token < 16; ++token) board_[table[0][3].first * 16 + token] = 9.0F;

  EXPECT_EQ(CommitOne(Commit(opened, 40, 0)).plans_size(), 0);
  const v1::SessionReply compact = CommitOne(Commit(opened, 80, 1));
  ASSERT_EQ(compact.failed_size(), 0) << compact.ShortDebugString();
  ASSERT_EQ(compact.plans_size(), 1);
  const v1::EvictionPlan& plan = compact.plans(0);
  ASSERT_TRUE(plan.has_compact());
  EXPECT_EQ(plan.compact().spare_pages(), 2U);
  const auto expect_kept = [&](int layer, uint32_t middle) {
    ASSERT_EQ(plan.compact().layers(layer).keep_size(), 48);
    for (uint32_t i = 0; i < 16; ++i) {
      EXPECT_EQ(plan.compact().layers(layer).keep(i), i);
      EXPECT_EQ(plan.compact().layers(layer).keep(16 + i), middle + i);
      EXPECT_EQ(plan.compact().layers(layer).keep(32 + i), 64 + i);
    }
  };
  expect_kept(0, 48);
  expect_kept(1, 16);

  // Acknowledged and decoded on in one request: the plan comes first.
  v1::SessionRequest request;
  v1::AckPlan* ack = request.add_ack();
  ack->set_sequence_id(opened.sequence_id());
  ack->set_lease_epoch(opened.lease_epoch());
  ack->set_plan_epoch(plan.plan_epoch());
  *request.add_commit() = Commit(opened, 81, 1);
  const v1::SessionReply after = Must(request);
  EXPECT_EQ(after.failed_size(), 0) << after.ShortDebugString();
  EXPECT_EQ(free_pages(), kPages - 2 * 5);

  for (uint32_t length = 82; length < 96; ++length) {
    const v1::SessionReply step = CommitOne(Commit(opened, length, 1));
    ASSERT_EQ(step.failed_size(), 0) << step.ShortDebugString();
    ASSERT_EQ(step.plans_size(), 0);
  }
  // The sixteenth token fills the page: the survivors of the prompt fill blocks 0 to 2.
  v1::CommitTokens filled = Commit(opened, 96, 1);
  for (int layer = 0; layer < 2; ++layer) {
    v1::PageRef* ref = filled.add_filled();
    ref->set_page(table[layer][3].first);
    ref->set_generation(table[layer][3].second);
  }
  const v1::SessionReply drop = CommitOne(filled);
  ASSERT_EQ(drop.failed_size(), 0) << drop.ShortDebugString();
  ASSERT_EQ(drop.plans_size(), 1);
  EXPECT_EQ(drop.plans(0).drop_page().block_index_size(), 2);

  request.Clear();
  ack = request.add_ack();
  ack->set_sequence_id(opened.sequence_id());
  ack->set_lease_epoch(opened.lease_epoch());
  ack->set_plan_epoch(drop.plans(0).plan_epoch());
  v1::CloseSequence* close = request.add_close();
  close->set_sequence_id(opened.sequence_id());
  close->set_lease_epoch(opened.lease_epoch());
  const v1::SessionReply closed = Must(request);
  EXPECT_EQ(closed.failed_size(), 0) << closed.ShortDebugString();
  EXPECT_EQ(free_pages(), kPages);
}

TEST_F(SessionTranslatorTest, ACloseMakesRoomForAnOpenOfTheSameRequest) {
  v1::OpenSequence large;
  for (uint32_t i = 0; i < 500; ++i) large.add_prompt_tokens(i);
  const v1::OpenResult first = OpenOne(large);
  ASSERT_EQ(first.code(), 0) << first.message();
  const v1::OpenResult refused = OpenOne(large);
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr("wanted 64"), HasSubstr("free"), HasSubstr("held")));
  EXPECT_EQ(refused.sequence_id(), 0U);

  v1::SessionRequest request;
  *request.add_open() = large;
  v1::CloseSequence* close = request.add_close();
  close->set_sequence_id(first.sequence_id());
  close->set_lease_epoch(first.lease_epoch());
  const v1::SessionReply reply = Must(request);
  EXPECT_EQ(reply.failed_size(), 0);
  EXPECT_EQ(reply.opened(0).code(), 0) << reply.opened(0).message();
}

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
  EXPECT_EQ(coordinator_.pool().reserved.value(), 0U);
}

TEST_F(SessionTranslatorTest, TheGateRefusesOpensOnly) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(16, 16));
  gate_ = absl::UnavailableError("draining");
  const v1::OpenResult refused = OpenOne(EvictingOpen(16, 16));
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(refused.message(), "draining");
  EXPECT_EQ(CommitOne(Commit(opened, 16, 1)).failed_size(), 0);
}

TEST_F(SessionTranslatorTest, ARefusedCommitAckOrCloseChangesNothing) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(80, 64));
  CommitOne(Commit(opened, 32, 0));
  const auto snapshot = [&] {
    auto detail = coordinator_.sequence(SequenceId(opened.sequence_id()));
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
    *request.add_commit() = commit;
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

TEST_F(SessionTranslatorTest, AFailureOfOneSequenceIsNoConcernOfTheOthers) {
  const v1::OpenResult a = OpenOne(EvictingOpen(16, 16));
  const v1::OpenResult b = OpenOne(EvictingOpen(16, 16));
  v1::SessionRequest request;
  *request.add_commit() = Commit(a, 1000, 0);
  *request.add_commit() = Commit(b, 16, 1);
  const v1::SessionReply reply = Must(request);
  ASSERT_EQ(reply.failed_size(), 1);
  EXPECT_EQ(reply.failed(0).sequence_id(), a.sequence_id());
  EXPECT_EQ(coordinator_.sequence(SequenceId(b.sequence_id()))->info.logical_length.value(), 16U);
}

TEST_F(SessionTranslatorTest, BreakingTheProtocolEndsTheSession) {
  v1::SessionRequest request;
  request.set_step(5);
  ASSERT_TRUE(translator_.Translate(request).ok());
  const auto repeated = translator_.Translate(request);
  EXPECT_EQ(repeated.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(repeated.status().message()), HasSubstr("step: 5 does not follow 5"));
  request.set_step(6);
  request.mutable_hello();
  const auto hello = translator_.Translate(request);
  EXPECT_EQ(hello.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(hello.status().message()), HasSubstr("hello: only the first"));
}

TEST_F(SessionTranslatorTest, AFencedWorkerGetsNoFurther) {
  const v1::OpenResult opened = OpenOne(EvictingOpen(16, 16));
  coordinator_.FenceWorker(worker_, /*quiesced=*/false);
  v1::SessionRequest request;
  request.set_step(100);
  *request.add_commit() = Commit(opened, 16, 1);
  const auto reply = translator_.Translate(request);
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr("fenced"));
}

}  // namespace
}  // namespace folio::manager
