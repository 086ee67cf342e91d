// Tensor parallelism on GPUs: a group of ranks against one executor on the CPU and against itself
// one step behind, and how a group fails.
#include <cuda_runtime_api.h>
#include <signal.h>

#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/ops/gemm.h"
#include "services/base/steady_time.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/cuda_ranks_harness.h"
#include "tests/gpu/dialogue.h"
#include "tests/gpu/mirror_executor.h"
#include "tests/gpu/requantized.h"
#include "tests/gpu/stored_model.h"
#include "tests/model/conversation.h"
#include "tests/model/swap_script.h"

namespace folio::model::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Ranks that are threads of one process wait for each other where they share a GPU.
bool OneEach(uint32_t ranks) {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  return Emulated() || static_cast<uint32_t>(devices) >= ranks;
}
#define FOLIO_NEEDS_GPUS(ranks) \
  if (!OneEach(ranks)) GTEST_SKIP() << "needs " << (ranks) << " GPUs"

struct Case {
  std::string name;
  RanksAre kind;
  uint32_t ranks;
  uint32_t heads, kv_heads;
  bool tied = false;
  bool fp8 = false;
  bool as_stored = false;
  uint32_t own_rows = 8;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

class CudaRanksTest : public ::testing::TestWithParam<Case> {};

// Of two ranks each has whole blocks.
ModelConfig ConfigOf(const Case& c) {
  ModelConfig config = c.fp8 ? Fp8Config() : GpuConfig();
  if (c.as_stored) config.hidden = 96;
  if (c.as_stored) config.ffn = 192;
  config.heads = c.heads;
  config.kv_heads = c.kv_heads;
  config.tied_embeddings = c.tied;
  return config;
}

// Values in another type than queries and keys.
std::optional<kernels::QuantizedFormat> FormatOf(Role role, uint32_t /*layer*/) {
  return kernels::kQuantizedFormats[role == Role::kValue ? 4 : 1];
}

// All scores of a conversation and all log-probabilities; the ranks compare their tables with every
// step.
TEST_P(CudaRanksTest, SayWhatTheCpuSays) {
  const Case& c = GetParam();
  FOLIO_NEEDS_GPUS(c.ranks);
  if (c.fp8 && !kernels::cuda::Gemm::CheckRowScales().ok()) GTEST_SKIP() << "this GPU has no FP8";
  const ModelConfig config = ConfigOf(c);
  const RandomModel model(config, 1234);
  const StoredModel stored(model, FormatOf);
  const ModelSource& served = c.as_stored ? static_cast<const ModelSource&>(stored) : model;
  const GroupSetup setup = {.model = served, .ranks = c.ranks, .kind = c.kind};
  const auto said = RunGpuGroup(
      setup,
      [&](Stage& stage) -> std::string {
        TestPool cpu_pool(config, setup.pages);
        const Requantized quantized(model);
        const ModelSource& source = c.fp8 ? static_cast<const ModelSource&>(quantized) : served;
        const auto cpu = *MakeCpuExecutor(source, OpsNamed("plain"), 1, cpu_pool.view());
        Mirror mirror(stage.executor, *cpu);
        Stage both{mirror, stage.pages, stage.board};
        Transcript transcript;
        std::string wrong = Play(both, config, /*forced=*/false, transcript);
        if (!wrong.empty()) return wrong;
        const Apart scores = CompareBoards(stage.board, cpu_pool.view());
        const float mean = mirror.sum / static_cast<float>(mirror.outputs);
        const std::string far =
            absl::StrCat(mirror.outputs, " outputs, log-probabilities ", mirror.largest, " (mean ",
                         mean, "), behind ", mirror.behind, ", other tokens ", mirror.other_tokens,
                         "; ", scores.numbers, " scores, ", scores.missing, " missing, ",
                         scores.largest, " (mean ", scores.mean(), ")");
        // Activations are rounded to bf16, and so is what a rank adds to the hidden state.
        // Emulated, they are at most 0.11, 0.018 and 0.12 apart, and in E4M3, which has four
        // significant bits, 0.72, 0.12 and 0.73.
        const float wide = c.fp8 ? 8 : 1;
        const bool near = mirror.outputs > 100 && mirror.largest < 0.2f * wide &&
                          mean < 0.03f * wide && mirror.behind < (c.fp8 ? 1.5f : 0.15f) &&
                          mirror.other_tokens < mirror.outputs / (c.fp8 ? 2 : 10) &&
                          scores.numbers > 250 && scores.missing == 0 &&
                          scores.largest < 0.02 * wide && scores.mean() < 0.002 * wide;
        return near ? "" : far;
      },
      nullptr,
      {.own_rows = c.own_rows,
       .type = c.fp8 ? kernels::cuda::DataType::kE4M3 : kernels::cuda::DataType::kBf16,
       .held = c.as_stored ? HeldWeights::kAsStored : HeldWeights::kBfloat16});
  for (uint32_t rank = 0; rank < c.ranks; ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
}

constexpr auto kThreads = RanksAre::kThreads;
INSTANTIATE_TEST_SUITE_P(
    Groups, CudaRanksTest,
    ::testing::Values(Case{"Two", kThreads, 2, 6, 2}, Case{"TwoOfThreeKvHeads", kThreads, 2, 9, 3},
                      Case{"FourOfTwoKvHeads", kThreads, 4, 6, 2},
                      Case{"FourOneKvHeadTied", kThreads, 4, 4, 1, true},
                      Case{"TwoThatTry", kThreads, 2, 6, 2, false, false, false, 0},
                      Case{"TwoInFp8", kThreads, 2, 6, 2, false, true},
                      Case{"TwoAsStored", kThreads, 2, 6, 2, false, false, true}),
    [](const auto& info) { return info.param.name; });

struct Said {
  std::vector<uint32_t> tokens;
  std::vector<float> logprobs;
  uint64_t digest = 0;
};

Said PlayDialogue(const GroupSetup& setup, uint64_t depth) {
  Said result;
  const auto said = RunGpuGroup(setup, [&](Stage& stage) -> std::string {
    if (stage.executor.pipeline_depth() != 1) return "it is not one step behind";
    Dialogue dialogue(stage.executor, stage.pages, depth);
    dialogue.Play();
    result = {dialogue.tokens, dialogue.logprobs, dialogue.digest};
    return "";
  });
  for (uint32_t rank = 0; rank < setup.ranks; ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  return result;
}

// What is sampled feeds the next step on all ranks before the host knows it.
TEST(CudaRanks, OneStepBehindIsTheSame) {
  FOLIO_NEEDS_GPUS(2u);
  const RandomModel model(GpuConfig(), 77);
  const GroupSetup setup = {.model = model};
  const Said together = PlayDialogue(setup, 0);
  const Said behind = PlayDialogue(setup, 1);
  EXPECT_GT(together.tokens.size(), 40u);
  EXPECT_EQ(together.tokens, behind.tokens);
  EXPECT_EQ(together.logprobs, behind.logprobs);
  EXPECT_EQ(together.digest, behind.digest);
}

TEST(CudaRanks, EachRankSwapsItsPart) {
  FOLIO_NEEDS_GPUS(2u);
  const RandomModel model(GpuConfig(), 5);
  const auto said = RunGpuGroup({.model = model, .ranks = 2}, [](Stage& stage) {
    return PlaySwap(stage.executor, stage.pages, stage.board, kernels::ScoreKind::kNormRatio);
  });
  for (const std::string& wrong : said) EXPECT_EQ(wrong, "");
}

// Only the leader samples and learns of it. The group continues.
TEST(CudaRanks, ALogitThatIsNotFiniteIsNoFaultOfTheGroup) {
  FOLIO_NEEDS_GPUS(2u);
  RandomModel model(GpuConfig(), 1);
  // Finite weights whose products are not.
  model.SetMatrix(Role::kOutput, 0,
                  std::vector<kernels::bf16>(size_t{101} * 40, kernels::bf16::Round(3e38f)));
  const auto said = RunGpuGroup({.model = model}, [](Stage& stage) -> std::string {
    StepSegment segment;
    segment.slot = stage.executor.tables().Acquire(kernels::ScoreKind::kNone);
    stage.executor.tables().Extend(segment.slot, stage.pages.Take(2));
    segment.tokens = {TokenId(1)};
    segment.want_output = true;
    for (uint32_t step = 0; step < 3; ++step) {
      segment.first_position = Position(step);
      const StepOutput output = stage.executor.Collect(stage.executor.Enqueue({{segment}}));
      if (!output.status.ok()) return output.status.ToString();
      if (!absl::IsDataLoss(output.outputs.at(0).status)) return "it was not seen";
      segment.tokens.clear();  // each rank feeds the token that was sampled
    }
    return stage.executor.fault().ToString();
  });
  EXPECT_EQ(said[0], "OK");
  EXPECT_EQ(said[1], "");
}

// Steps until something fails; whether that came soon, and what it was.
std::string StepUntilFault(Stage& stage) {
  const SequenceSlot slot = stage.executor.tables().Acquire(kernels::ScoreKind::kNone);
  stage.executor.tables().Extend(slot, stage.pages.Take(38));
  StepSegment segment;
  segment.slot = slot;
  segment.tokens = {TokenId(1)};
  segment.want_output = true;
  absl::Status status;
  SteadyTime start;
  for (uint32_t step = 0; status.ok() && step < 500; ++step) {
    segment.first_position = Position(step);
    start = SteadyNow();
    status = stage.executor.Collect(stage.executor.Enqueue({{segment}})).status;
  }
  if (stage.executor.fault() != status) return "the fault is another";
  const bool soon = SteadyNow() - start < absl::Seconds(10);
  if (stage.executor.Collect(stage.executor.Enqueue({{segment}})).status != status) return "again?";
  stage.executor.tables().Release(slot);
  return absl::StrCat(soon ? "soon " : "late ", status.ToString());
}

// On the others' GPUs a step waits for it, and NCCL does not know.
TEST(CudaRanksFailure, AKilledRankEndsTheStepInTime) {
  if (!Emulated()) GTEST_SKIP() << "ranks are forked from a process that has used CUDA";
  const RandomModel model(GpuConfig(), 1234);
  const GroupSetup setup = {.model = model, .ranks = 3, .kind = RanksAre::kProcesses};
  const auto said = RunGpuGroup(setup, StepUntilFault, [](collective::Collective& group) {
    if (group.rank() != Rank(1)) return;
    std::thread([] {
      absl::SleepFor(absl::Milliseconds(400));
      raise(SIGKILL);
    }).detach();
  });
  EXPECT_EQ(said[1], collective::testing::kKilled);
  EXPECT_THAT(said[0], AllOf(StartsWith("soon UNAVAILABLE"), HasSubstr("rank 1 (process ")));
  EXPECT_THAT(said[2], AllOf(StartsWith("UNAVAILABLE"), HasSubstr("rank 1 (process ")));
}

// A rank that stops while it lives: it ends the group for all.
TEST(CudaRanksFailure, ARankThatFailsEndsTheGroup) {
  FOLIO_NEEDS_GPUS(2u);
  const RandomModel model(GpuConfig(), 1234);
  const auto said =
      RunGpuGroup({.model = model}, StepUntilFault, [](collective::Collective& group) {
        std::string message;
        (void)group.Broadcast(message, SteadyNow() + absl::Seconds(20));
        group.Abort(absl::DataLossError("rank 1: its memory is lost"));
      });
  EXPECT_EQ(said[0], "soon DATA_LOSS: rank 1: its memory is lost");
  EXPECT_EQ(said[1], "DATA_LOSS: rank 1: its memory is lost");
}

// A rank that takes what it is told and whose GPU does not do it: nothing shows it but time.
TEST(CudaRanksFailure, AHungGpuEndsTheStepInTime) {
  FOLIO_NEEDS_GPUS(2u);
  const RandomModel model(GpuConfig(), 1234);
  GroupSetup setup = {.model = model};
  setup.options.timeout = absl::Seconds(5);
  const auto said = RunGpuGroup(setup, StepUntilFault, [](collective::Collective& group) {
    std::string message;
    while (group.Broadcast(message, SteadyNow() + absl::Seconds(20)).ok()) {
    }
  });
  // Or already where NCCL connects the ranks.
  EXPECT_THAT(said[0], AllOf(StartsWith("soon DEADLINE_EXCEEDED"), HasSubstr("within 5s")));
  EXPECT_THAT(said[1], AllOf(StartsWith("DEADLINE_EXCEEDED"), HasSubstr("within 5s")));
}

}  // namespace
}  // namespace folio::model::testing
