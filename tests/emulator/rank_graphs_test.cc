// Graphs of ranks where a rank fails, which only the emulation does on demand, and the number of
// calls that a step makes.
#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "tests/emulator/runtime.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/cuda_ranks_harness.h"

namespace folio::model::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Field;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;

// One sequence that decodes what it samples.
class Decoder {
 public:
  explicit Decoder(Stage& stage) : executor_(stage.executor) {
    segment_.slot = executor_.tables().Acquire(kernels::ScoreKind::kNone);
    executor_.tables().Extend(segment_.slot, stage.pages.Take(38));
    segment_.tokens = {TokenId(1)};
    segment_.want_output = true;
  }

  StepOutput Step() {
    segment_.first_position = Position(steps_++);
    StepOutput output = executor_.Collect(executor_.Enqueue({{segment_}}));
    segment_.tokens.clear();
    return output;
  }

 private:
  Executor& executor_;
  StepSegment segment_;
  uint32_t steps_ = 0;
};

// The tokens of a few steps, or why there are none.
std::string Tokens(Stage& stage) {
  Decoder decoder(stage);
  std::vector<uint32_t> tokens;
  for (int step = 0; step < 20; ++step) {
    const StepOutput output = decoder.Step();
    if (!output.status.ok()) return output.status.ToString();
    tokens.push_back(output.outputs.at(0).token.value());
  }
  return absl::StrJoin(tokens, " ");
}

TEST(RankGraphs, ARankWithoutMemoryForAGraphStopsAll) {
  const RandomModel model(GpuConfig(), 3);
  const GroupSetup setup = {.model = model, .ranks = 3, .kind = RanksAre::kProcesses};
  std::vector<GraphCounts> counts;
  const auto all = RunGpuGroup(setup, Tokens, nullptr, {.tune = false, .counts = &counts});
  EXPECT_THAT(counts, Each(Field(&GraphCounts::replayed, 19u)));
  const auto meddle = [](collective::Collective& group) {
    if (group.rank() == Rank(2)) emulate::faults.instantiate = cudaErrorMemoryAllocation;
  };
  ::testing::internal::CaptureStderr();
  const auto some = RunGpuGroup(setup, Tokens, meddle, {.tune = false, .counts = &counts});
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(some, all);
  EXPECT_THAT(counts, Each(AllOf(Field(&GraphCounts::replayed, 0u), Field(&GraphCounts::bytes, 0u),
                                 Field(&GraphCounts::refused, 1u))));
  EXPECT_THAT(log, HasSubstr("rank 2: INTERNAL: a graph was not made: out of memory"));
}

// Lets processes map each other's memory in a test.
class Sharing {
 public:
  explicit Sharing(bool share) { emulate::share_memory = share; }
  ~Sharing() {
    emulate::share_memory = false;
    emulate::faults = {};
  }
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;
};

// The kernel adds in the same order as the stand-in for NCCL.
TEST(RankGraphs, ProcessesAddUpWithoutNccl) {
  const RandomModel model(GpuConfig(), 3);
  const GroupSetup setup = {.model = model, .ranks = 3, .kind = RanksAre::kProcesses};
  const auto nccl = RunGpuGroup(setup, Tokens, nullptr, {.tune = false, .peers = false});
  const Sharing sharing(true);
  const std::string said = "all sums of ranks go through NCCL";
  ::testing::internal::CaptureStderr();
  std::vector<GraphCounts> counts;
  const auto own = RunGpuGroup(setup, Tokens, nullptr, {.tune = false, .counts = &counts});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), Not(HasSubstr(said)));
  EXPECT_EQ(own, nccl);
  EXPECT_THAT(counts, Each(Field(&GraphCounts::replayed, 19u)));
  // Without access each rank says so, and the answer is the same.
  emulate::faults.peer_access = cudaErrorPeerAccessUnsupported;
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunGpuGroup(setup, Tokens, nullptr, {.tune = false}), nccl);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(said), HasSubstr("rank 0: it cannot reach rank 1: "),
                    HasSubstr("peer access is not supported")));
}

// The leader's steps, which processes that are forked later see.
class SharedCount {
 public:
  SharedCount()
      : memory_(mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    FOLIO_CHECK(memory_ != MAP_FAILED);
    count_ = new (memory_) std::atomic<int>(0);
  }
  ~SharedCount() { munmap(memory_, sizeof(std::atomic<int>)); }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;

  std::atomic<int>& operator*() const { return *count_; }

 private:
  void* memory_;
  std::atomic<int>* count_;
};

// The other ranks wait for it within a graph, in a kernel of NCCL or in our own.
class KilledRankTest : public ::testing::TestWithParam<bool> {};
TEST_P(KilledRankTest, EndsAGraphInTime) {
  constexpr int kLives = 12;  // steps, of which most replay a graph
  const SharedCount steps;
  const Sharing sharing(GetParam());
  const RandomModel model(GpuConfig(), 1234);
  const GroupSetup setup = {.model = model, .ranks = 3, .kind = RanksAre::kProcesses};
  std::vector<GraphCounts> counts;
  const auto script = [&](Stage& stage) -> std::string {
    Decoder decoder(stage);
    for (int step = 0; step < 600; ++step) {
      const SteadyTime start = SteadyNow();
      const absl::Status status = decoder.Step().status;
      *steps = step;
      if (status.ok()) continue;
      const bool soon = SteadyNow() - start < absl::Seconds(10);
      return absl::StrCat(soon ? "soon " : "late ", status.ToString());
    }
    return "it lives";
  };
  const auto meddle = [&](collective::Collective& group) {
    if (group.rank() != Rank(1)) return;
    std::thread([&] {
      while (*steps < kLives) absl::SleepFor(absl::Milliseconds(1));
      raise(SIGKILL);
    }).detach();
  };
  const auto said = RunGpuGroup(setup, script, meddle, {.tune = false, .counts = &counts});
  EXPECT_EQ(said[1], collective::testing::kKilled);
  EXPECT_THAT(said[0], AllOf(HasSubstr("soon UNAVAILABLE"), HasSubstr("rank 1 (process ")));
  EXPECT_THAT(said[2], HasSubstr("rank 1 (process "));
  EXPECT_THAT(counts[0].replayed, Ge(3u));
  EXPECT_THAT(counts[2].replayed, Ge(3u));
}

INSTANTIATE_TEST_SUITE_P(WithoutNccl, KilledRankTest, ::testing::Bool());

// What the leader's host gives to its device in a decode step of one row.
uint64_t CallsOfAStep(const GroupSetup& setup, bool graphs) {
  uint64_t calls = 0;
  const auto script = [&](Stage& stage) -> std::string {
    Decoder decoder(stage);
    for (int step = 0; step < 5; ++step) {
      const uint64_t before = emulate::CallsMade();
      if (absl::Status status = decoder.Step().status; !status.ok()) return status.ToString();
      calls = emulate::CallsMade() - before;
    }
    return "";
  };
  const auto said =
      RunGpuGroup(setup, script, nullptr, {.tune = false, .wanted = [=](Rank) { return graphs; }});
  EXPECT_THAT(said, Each(""));
  return calls;
}

TEST(RankGraphs, AStepIsFewCalls) {
  ModelConfig config = GpuConfig();
  uint64_t with[2];
  uint64_t without[2];
  for (const uint32_t layers : {2u, 3u}) {
    config.num_layers = layers;
    const RandomModel model(config, 3);
    const GroupSetup setup = {.model = model};
    with[layers - 2] = CallsOfAStep(setup, true);
    without[layers - 2] = CallsOfAStep(setup, false);
  }
  const uint64_t a_layer = without[1] - without[0];
  std::printf("calls of a step: %lu with graphs; %lu and %lu a layer without\n",
              static_cast<unsigned long>(with[0]),
              static_cast<unsigned long>(without[0] - 2 * a_layer),
              static_cast<unsigned long>(a_layer));
  EXPECT_EQ(with[0], with[1]) << "it grows with the layers";
  EXPECT_LE(with[0], 10u);
  // Two sums among them.
  EXPECT_GE(a_layer, 9u);
}

}  // namespace
}  // namespace folio::model::testing
