// Sessions whose messages are damaged bytes, beside a worker that behaves, on one coordinator. The
// page accounting stays whole, and the worker that behaves is served.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "services/cache/inspector.h"
#include "services/manager/session_translator.h"
#include "services/runtime/logging.h"
#include "tests/manager/manager_harness.h"
#include "tests/manager/plausible_requests.h"
#include "tests/manager/translate_message.h"
#include "tests/testing/random_damage.h"

namespace folio::manager {
namespace {

using ::folio::testing::ManualClock;
using ::folio::testing::RandomDamage;

constexpr CacheGeometry kGeometry = {
    .num_layers = 2, .num_kv_heads = 1, .head_dim = 8, .page_tokens = 16};
constexpr uint32_t kPages = 96;
constexpr uint32_t kSwapSlots = 24;

class DamagedSessionsTest : public ::testing::Test {
 protected:
  DamagedSessionsTest() { log::Configure(log::Format::kText, log::Level::kError); }
  ~DamagedSessionsTest() override { log::Configure(log::Format::kText, log::Level::kInfo); }

  // A worker with its session.
  struct Session {
    Session(cache::Coordinator& coordinator, EventLog& events, const char* name)
        : worker(coordinator.AddWorker(name)),
          translator(coordinator, worker, CacheRules{16, 2, {}}, nullptr, &events) {}
    const WorkerId worker;
    SessionTranslator translator;
    uint64_t step = 0;
  };

  cache::CoordinatorOptions Options() {
    cache::CoordinatorOptions options;
    options.geometry = kGeometry;
    options.num_pages = PageCount(kPages);
    options.admission = cache::Admission::kOptimistic;
    options.orphan_ttl = absl::Seconds(30);
    options.score_board = board_.data();
    options.swap_slots = kSwapSlots;
    options.clock = &clock_;
    return options;
  }

  cache::PoolInfo pool() const { return cache::Inspector(coordinator_).pool(); }

  void CheckWhole(const v1::SessionRequest& after) const {
    const absl::Status whole = cache::Inspector(coordinator_).CheckInvariants();
    ASSERT_TRUE(whole.ok()) << whole << " after " << after.ShortDebugString();
  }

  // The session ends as a manager ends it: the worker is fenced, and its process ends later.
  void EndStranger() {
    const bool quiesced = random_.OneIn(3);
    coordinator_.FenceWorker(stranger_->worker, quiesced);
    coordinator_.ConfirmExited(stranger_->worker);
    stranger_.emplace(coordinator_, events_, "stranger");
    ++seen_["sessions ended"];
  }

  void Count(const v1::SessionReply& reply) {
    for (const v1::OpenResult& opened : reply.opened())
      ++seen_[opened.code() ? "refused" : "opened"];
    for (const v1::ClaimResult& claimed : reply.claimed()) {
      if (claimed.code() == 0) ++seen_["claimed"];
    }
    for (const v1::UnparkResult& unparked : reply.unparked()) {
      if (unparked.code() == 0) ++seen_["unparked"];
    }
    seen_["plans"] += reply.plans_size();
    seen_["failed"] += reply.failed_size();
  }

  // Damages the bytes until they parse, a few times. False if they never do.
  bool ParseDamaged(const std::string& bytes, v1::SessionRequest& request) {
    const std::string other =
        requests_.Next(stranger_->worker, stranger_->step + 1).SerializeAsString();
    for (int attempt = 0; attempt < 6; ++attempt) {
      const std::string damaged =
          random_.OneIn(20) ? random_.Bytes(random_.Below(100)) : random_.Damage(bytes, other);
      if (request.ParseFromString(damaged)) return true;
      ++seen_["not parsed"];
    }
    return false;
  }

  void StrangerSends() {
    const v1::SessionRequest whole = requests_.Next(stranger_->worker, stranger_->step + 1);
    v1::SessionRequest request = whole;
    if (!random_.OneIn(4) && !ParseDamaged(whole.SerializeAsString(), request)) return;
    // Mostly the number is as it should be, or damage to it would hide all other damage.
    if (!random_.OneIn(30)) request.set_step(stranger_->step + 1);
    const auto reply = testing::TranslateMessage(stranger_->translator, request);
    ASSERT_NO_FATAL_FAILURE(CheckWhole(request));
    if (!reply.ok()) {
      ASSERT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument) << reply.status();
      EndStranger();
      return;
    }
    EXPECT_EQ(reply->step(), request.step());
    EXPECT_EQ(reply->opened_size(), request.open_size());
    EXPECT_EQ(reply->claimed_size(), request.claim_size());
    stranger_->step = request.step();
    Count(*reply);
  }

  v1::SessionReply HonestCall(v1::SessionRequest request) {
    request.set_step(++honest_.step);
    const auto reply = testing::TranslateMessage(honest_.translator, request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->failed_size(), 0) << reply->ShortDebugString();
    CheckWhole(request);
    return *reply;
  }

  void HonestOpens() {
    v1::SessionRequest request;
    v1::OpenSequence* open = request.add_open();
    for (uint32_t i = 0; i < 80; ++i) open->add_prompt_tokens(i);
    open->set_max_new_tokens(64);
    open->mutable_cache()->mutable_policy()->mutable_paged_eviction();
    open->mutable_cache()->set_budget_tokens(48);
    v1::SessionReply reply = HonestCall(request);
    if (reply.opened(0).code() != 0) {
      // The others may hold everything. Without them there is room, also where orphans are.
      EXPECT_EQ(reply.opened(0).code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
      EndStranger();
      reply = HonestCall(request);
    }
    EXPECT_EQ(reply.opened(0).code(), 0) << reply.opened(0).message();
  }

  // One step of the worker that behaves: its sequence has an eviction in the prompt and in decode.
  void HonestSteps() {
    const auto sequences = requests_.SequencesOf(honest_.worker);
    if (sequences.empty()) {
      HonestOpens();
      return;
    }
    ASSERT_EQ(sequences.size(), 1U);
    const cache::SequenceInfo& info = sequences[0];
    v1::SessionRequest request;
    if (info.state == cache::SequenceState::kEvicting) requests_.Acknowledge(info, request);
    if (info.logical_length.value() < 80 + 63) {
      if (info.state != cache::SequenceState::kEvicting)
        *request.add_commit() = requests_.Commit(info);
    } else {
      EXPECT_GE(info.evicted_tokens.value(), 48U);
      requests_.Name(info, request.add_close());
      ++seen_["completed"];
    }
    HonestCall(request);
  }

  void EndAll() {
    for (const WorkerId worker : {stranger_->worker, honest_.worker}) {
      coordinator_.FenceWorker(worker, /*quiesced=*/true);
      coordinator_.ConfirmExited(worker);
    }
    clock_.Advance(absl::Seconds(31));
    coordinator_.EndExpiredOrphans();
    EXPECT_EQ(pool().sequences, 0U);
    EXPECT_EQ(pool().free.value(), kPages);
    EXPECT_EQ(pool().free_swap_slots, kSwapSlots);
    CheckWhole({});
  }

  RandomDamage random_;
  ManualClock clock_;
  std::vector<float> board_ = std::vector<float>(kGeometry.score_board_floats(kPages), 1.0F);
  EventLog events_;
  cache::Coordinator coordinator_{Options()};
  PlausibleRequests requests_{coordinator_, random_};
  Session honest_{coordinator_, events_, "honest"};
  std::optional<Session> stranger_{std::in_place, coordinator_, events_, "stranger"};
  std::map<std::string, uint64_t> seen_;
};

TEST_F(DamagedSessionsTest, LeaveTheAccountingWholeAndOthersServed) {
  const google::protobuf::LogSilencer silent;  // of text that is not UTF-8
  SCOPED_TRACE(random_.repeat());
  const int rounds = RandomDamage::Rounds(40'000);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    ASSERT_NO_FATAL_FAILURE(StrangerSends());
    if (round % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(HonestSteps());
    }
    if (random_.OneIn(50)) EndStranger();
  }
  EndAll();
  for (const char* kind : {"not parsed", "refused", "opened", "claimed", "unparked", "plans",
                           "failed", "sessions ended", "completed"}) {
    EXPECT_GE(seen_[kind], 5U) << kind;
  }
  for (const auto& [kind, count] : seen_) std::cout << kind << " " << count << "\n";
}

}  // namespace
}  // namespace folio::manager
