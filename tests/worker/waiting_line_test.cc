// The order of requests that wait, with times that the test chooses.
#include "services/worker/engine/waiting_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

namespace folio::worker {
namespace {

using absl::Milliseconds;
using absl::Seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Client final : public ResultSink {
 public:
  void OnEvent(Event event) override { places.push_back(std::get<Progress>(event).queue_position); }
  void OnEnd(absl::Status status) override { ends.push_back(std::move(status)); }

  std::vector<uint32_t> places;
  std::vector<absl::Status> ends;
};

class WaitingLineTest : public ::testing::Test {
 protected:
  static constexpr size_t kMost = 5;
  static constexpr uint32_t kShortPrompt = 128;

  WaitingLineTest() {
    queue_.Open([] {});
  }

  // A new request at the end of the line, as the step loop gets it.
  std::shared_ptr<Submission> PushOf(const std::string& tenant) {
    return Push(/*resume=*/false, tenant);
  }
  std::shared_ptr<Submission> Push(bool resume = false, const std::string& tenant = "") {
    SequenceRequest request;
    request.tenant = tenant;
    if (resume) request.resume.emplace();
    return Enter(std::move(request));
  }
  std::vector<std::shared_ptr<Submission>> Take(size_t places, bool asking = false) {
    return line_.Take(Places(places, kShortPrompt), asking, now_);
  }
  // A new request with a prompt of so many tokens.
  std::shared_ptr<Submission> PushPrompt(size_t tokens) {
    SequenceRequest request;
    request.prompt.resize(tokens);
    return Enter(std::move(request));
  }
  std::shared_ptr<Submission> Enter(SequenceRequest request) {
    auto submission = std::make_shared<Submission>();
    submission->request = std::move(request);
    submission->sink = &client_;
    EXPECT_TRUE(queue_.Push(submission).ok());
    line_.Add(queue_.Take(), now_);
    return submission;
  }
  void PutBack(const std::vector<std::shared_ptr<Submission>>& submissions) {
    std::vector<Refused> refused;
    for (const auto& one : submissions)
      refused.push_back({one, absl::ResourceExhaustedError("full")});
    line_.PutBack(std::move(refused), now_);
  }
  void EndLate() {
    line_.End([](const Submission&) { return absl::OkStatus(); }, now_);
  }

  Client client_;
  RequestQueue queue_{kMost};
  WaitingLine line_{Seconds(10), &queue_};
  SteadyTime now_{Seconds(1000)};
};

TEST_F(WaitingLineTest, TakesAsManyAsThereArePlaces) {
  const auto a = Push(), b = Push(), c = Push();
  EXPECT_THAT(Take(2), ElementsAre(a, b));
  EXPECT_THAT(Take(0), IsEmpty());
  EXPECT_THAT(Take(2, /*asking=*/true), IsEmpty());
  EXPECT_THAT(Take(2), ElementsAre(c));
  EXPECT_TRUE(line_.empty());
}

TEST_F(WaitingLineTest, TenantsTakeTurns) {
  const auto a = PushOf("many"), b = PushOf("many"), c = PushOf("many"), d = PushOf("one");
  EXPECT_THAT(Take(2), ElementsAre(a, d));
  EXPECT_THAT(Take(2), ElementsAre(b, c));
}

TEST_F(WaitingLineTest, ATenantThatWasServedMuchWaitsForTheOthers) {
  PushOf("many");
  Take(1);
  const auto a = PushOf("many"), b = PushOf("one"), c = PushOf("one");
  line_.OnComputed("many", 100);
  EXPECT_THAT(Take(1), ElementsAre(b));
  line_.OnComputed("one", 49);
  EXPECT_THAT(Take(1), ElementsAre(c));
  EXPECT_THAT(Take(1), ElementsAre(a));
}

// Each of them would come before the one that was served, if only the least served came first.
TEST_F(WaitingLineTest, NewTenantsDoNotKeepOneWaitingForever) {
  PushOf("old");
  Take(1);
  PushOf("first"), PushOf("second");
  line_.OnComputed("old", 90);
  const auto old = PushOf("old");
  for (int newcomer = 0;; ++newcomer) {
    ASSERT_LT(newcomer, 30);
    const std::string name = absl::StrCat("new", newcomer);
    PushOf(name);
    const auto taken = Take(1);
    if (taken[0] == old) break;
    line_.OnComputed(name, 10);
  }
}

TEST_F(WaitingLineTest, ClientsAreToldTheirPlacesInTurns) {
  PushOf("many"), PushOf("many"), PushOf("many"), PushOf("one");
  now_ += Milliseconds(200);
  line_.Report(now_);
  // In the order of the turns: many, one, many, many.
  EXPECT_THAT(client_.places, ElementsAre(1, 2, 3, 4));
}

TEST_F(WaitingLineTest, NobodyPassesTheOneWithoutRoom) {
  const auto a = Push(), b = Push(), c = Push();
  EXPECT_THAT(Take(2), ElementsAre(a, b));
  PutBack({a});
  EXPECT_THAT(Take(9), IsEmpty());  // not yet
  now_ += Seconds(1);
  EXPECT_THAT(Take(9), ElementsAre(a));
  EXPECT_THAT(Take(9, /*asking=*/true), IsEmpty());
  PutBack({a});
  line_.OnRoom();
  EXPECT_THAT(Take(9), ElementsAre(a));
  EXPECT_THAT(Take(9), ElementsAre(c));  // the manager has answered, and `a` has room
}

TEST_F(WaitingLineTest, RequestsComeBackToTheirPlaces) {
  const auto a = Push(), b = Push(), c = Push();
  Take(3);
  const auto d = Push();
  PutBack({c});
  PutBack({a, b});
  for (const auto& expected : {a, b, c, d}) {
    line_.OnRoom();
    EXPECT_THAT(Take(1), ElementsAre(expected));
  }
}

TEST_F(WaitingLineTest, ThePausesBetweenTriesGrow) {
  const auto a = Push();
  Take(1);
  PutBack({a});
  absl::Duration pause;
  for (int i = 0; i < 10; ++i) {
    const SteadyTime from = now_;
    while (Take(1).empty()) now_ += Milliseconds(1);
    EXPECT_GE(now_ - from, pause);
    pause = now_ - from;
    PutBack({a});
  }
  EXPECT_EQ(pause, Milliseconds(200));
}

TEST_F(WaitingLineTest, ARequestThatNeedsNoRoomPasses) {
  const auto a = Push();
  Take(1);
  PutBack({a});
  const auto b = Push(), resumed = Push(/*resume=*/true);
  EXPECT_THAT(Take(9), ElementsAre(resumed));
  EXPECT_THAT(Take(0), IsEmpty());
}

TEST_F(WaitingLineTest, RequestsEndWhenTheyHaveWaited) {
  const auto a = Push();
  now_ += Seconds(4);
  const auto b = Push();
  EXPECT_THAT(Take(1), ElementsAre(a));
  PutBack({a});
  now_ += Seconds(6);
  EndLate();
  ASSERT_EQ(client_.ends.size(), 1u);
  EXPECT_EQ(client_.ends[0].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(client_.ends[0].message()),
              HasSubstr("waited 10s (--queue_timeout), at last at place 1 of 2: full"));
  line_.OnRoom();
  EXPECT_THAT(Take(1), ElementsAre(b));
}

TEST_F(WaitingLineTest, TellsPlacesOnceASecond) {
  const auto a = Push(), b = Push(), c = Push();
  line_.Report(now_);
  EXPECT_THAT(client_.places, IsEmpty());
  now_ += Milliseconds(100);
  line_.Report(now_);
  EXPECT_THAT(client_.places, ElementsAre(1, 2, 3));
  Take(1);
  line_.Report(now_);
  EXPECT_EQ(client_.places.size(), 3u);
  now_ += Seconds(1);
  line_.Report(now_);
  EXPECT_THAT(client_.places, ElementsAre(1, 2, 3, 1, 2));
  now_ += Seconds(1);
  line_.Report(now_);  // nothing has changed
  EXPECT_EQ(client_.places.size(), 5u);
}

TEST_F(WaitingLineTest, ItsLengthIsBounded) {
  std::vector<std::shared_ptr<Submission>> all;
  for (size_t i = 0; i < kMost; ++i) all.push_back(Push());
  const absl::Status refused = queue_.Push(std::make_shared<Submission>());
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--max_queue"));
  Take(2);
  const auto sixth = Push(), seventh = Push();
  EXPECT_FALSE(queue_.Push(std::make_shared<Submission>()).ok());
  line_.EndAll(absl::UnavailableError("gone"));
  EXPECT_EQ(client_.ends.size(), kMost);
  Push();
}

TEST_F(WaitingLineTest, KnowsWhenItIsNext) {
  const Places one(1, kShortPrompt);
  EXPECT_EQ(line_.NextTurn(one), SteadyTime::InfiniteFuture());
  const auto a = Push();
  EXPECT_LE(line_.NextTurn(one), now_);
  EXPECT_EQ(line_.NextTurn(Places()), now_ + Milliseconds(100));  // to tell its place
  Take(1);
  PutBack({a});
  EXPECT_EQ(line_.NextTurn(one), now_ + Milliseconds(5));
  line_.OnRoom();
  EXPECT_LE(line_.NextTurn(one), now_);
}

// Of 16 places 2 are for short prompts.
TEST_F(WaitingLineTest, ShortPromptsPassLongOnesThatHaveNoPlace) {
  Places places(16, kShortPrompt);
  for (int i = 0; i < 14; ++i) places.Use(kShortPrompt + 1);
  const auto first = PushPrompt(kShortPrompt + 1), second = PushPrompt(kShortPrompt);
  const auto third = PushPrompt(9000), fourth = PushPrompt(1);
  EXPECT_THAT(line_.Take(places, /*asking=*/false, now_), ElementsAre(second, fourth));
  places.Use(kShortPrompt), places.Use(1);
  const auto fifth = PushPrompt(1);
  EXPECT_THAT(line_.Take(places, /*asking=*/false, now_), IsEmpty());
  // A long one has ended, so the long one that waits longest is before short ones that came later.
  Places later(16, kShortPrompt);
  for (int i = 0; i < 13; ++i) later.Use(kShortPrompt + 1);
  later.Use(kShortPrompt), later.Use(1);
  EXPECT_THAT(line_.Take(later, /*asking=*/false, now_), ElementsAre(first));
  EXPECT_EQ(line_.size(), 2u);
}

TEST_F(WaitingLineTest, ShortPromptsMayTakeAllPlaces) {
  Places places(8, kShortPrompt);
  for (int i = 0; i < 7; ++i) places.Use(1);
  const auto first = PushPrompt(1), second = PushPrompt(9000);
  EXPECT_THAT(line_.Take(places, /*asking=*/false, now_), ElementsAre(first));
  places.Use(1);
  EXPECT_THAT(line_.Take(places, /*asking=*/false, now_), IsEmpty());
}

// Otherwise the step loop would make turns without a pause.
TEST_F(WaitingLineTest, NoTurnIsDueForALongPromptThatHasNoPlace) {
  Places places(8, kShortPrompt);
  for (int i = 0; i < 7; ++i) places.Use(9000);
  PushPrompt(9000);
  EXPECT_GT(line_.NextTurn(places), now_);
  PushPrompt(1);
  EXPECT_LE(line_.NextTurn(places), now_);
}

}  // namespace
}  // namespace folio::worker
