// This harness runs a translator over a real coordinator with two layers and pages of 16 tokens.
#ifndef FOLIO_TESTS_MANAGER_SESSION_TRANSLATOR_HARNESS_H_
#define FOLIO_TESTS_MANAGER_SESSION_TRANSLATOR_HARNESS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "services/base/clock.h"
#include "services/cache/inspector.h"
#include "services/manager/event_log.h"
#include "services/manager/session_translator.h"
#include "tests/manager/translate_message.h"

namespace folio::manager {

constexpr uint32_t kPages = 64;

inline cache::CoordinatorOptions TranslatorOptions(const std::vector<float>& board,
                                                   const Clock& clock) {
  cache::CoordinatorOptions options;
  options.geometry.num_layers = 2;
  options.geometry.num_kv_heads = 1;
  options.geometry.head_dim = 8;
  options.geometry.page_tokens = 16;
  options.num_pages = PageCount(kPages);
  options.score_board = board.data();
  options.clear_pages = cache::ClearPages::kBetweenTenants;
  options.clock = &clock;
  return options;
}

class SessionTranslatorTest : public ::testing::Test {
 protected:
  v1::SessionReply Must(v1::SessionRequest request) {
    request.set_step(++step_);
    auto reply = testing::TranslateMessage(translator_, request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->step(), step_);
    const absl::Status whole = cache::Inspector(coordinator_).CheckInvariants();
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

  uint32_t free_pages() const { return cache::Inspector(coordinator_).pool().free.value(); }

  const RealClock clock_;
  std::vector<float> board_ = std::vector<float>(kPages * 16, 1.0F);
  cache::Coordinator coordinator_{TranslatorOptions(board_, clock_)};
  WorkerId worker_ = coordinator_.AddWorker("test");
  absl::Status gate_;
  EventLog event_log_;
  SessionTranslator translator_{coordinator_, worker_, CacheRules{16, 2, {}},
                                [this] { return gate_; }, &event_log_};
  uint64_t step_ = 0;
  uint64_t tag_ = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_TESTS_MANAGER_SESSION_TRANSLATOR_HARNESS_H_
