// The executor of a GPU against the plain family on the CPU, and what it refuses.
#include "services/model/cuda/cuda_executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/executor/sampler.h"
#include "services/model/executor/segment_output.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/mirror_executor.h"
#include "tests/model/conversation.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

// All scores of a conversation, all pages, all log-probabilities.
void ExpectWhatTheCpuSays(const ModelConfig& config) {
  const RandomModel model(config, 1234);
  CudaHarness harness(model);
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  TestPool cpu_pool(model.config(), 400);
  const auto cpu = *MakeCpuExecutor(model, OpsNamed("plain"), 1, cpu_pool.view());
  Mirror mirror(harness.executor(), *cpu);
  Stage stage{mirror, harness.pool(), harness.board()};
  Transcript transcript;
  EXPECT_EQ(Play(stage, model.config(), /*forced=*/false, transcript), "");
  EXPECT_GT(mirror.outputs, 100u);
  // Activations are rounded to bf16. Emulated, they are 0.055, 0.009 and 0.03 apart.
  EXPECT_LT(mirror.largest, 0.2f);
  EXPECT_LT(mirror.sum / static_cast<float>(mirror.outputs), 0.03f);
  EXPECT_LT(mirror.behind, 0.15f);
  EXPECT_LT(mirror.other_tokens, mirror.outputs / 10);

  const kernels::PoolView& twin = cpu_pool.view();
  const Apart scores = CompareBoards(harness.board(), twin);
  EXPECT_GT(scores.numbers, 500u);
  EXPECT_EQ(scores.missing, 0u);
  EXPECT_LT(scores.largest, 0.02);
  EXPECT_LT(scores.mean(), 0.002);
  Apart numbers;
  const std::vector<kernels::bf16> pages = harness.Pages();
  const auto* twins = reinterpret_cast<const kernels::bf16*>(twin.pages);
  for (size_t i = 0; i < pages.size(); ++i) numbers.Add(pages[i].ToFloat(), twins[i].ToFloat());
  EXPECT_GT(numbers.numbers, 10000u);
  EXPECT_EQ(numbers.missing, 0u);
  EXPECT_LT(numbers.mean(), 0.01);
}

TEST(CudaExecutorTest, SaysWhatTheCpuSays) { ExpectWhatTheCpuSays(GpuConfig()); }

TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithBiases) {
  ExpectWhatTheCpuSays(OfFamily("qwen2", GpuConfig()));
}

TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithScaledQueries) {
  ModelConfig config = OfFamily("ministral3", GpuConfig());
  config.query_scale = {0.5f, 10};
  ExpectWhatTheCpuSays(config);
}

TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithHeadNorms) {
  ExpectWhatTheCpuSays(OfFamily("qwen3", GpuConfig()));
}

TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithGemmasLayers) {
  ExpectWhatTheCpuSays(OfFamily("gemma3", GpuConfig()));
}

// Windows shorter and longer than a chunk of a prompt, one of which pages leave.
TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithWindows) {
  for (const uint32_t window : {7, 25, 40}) {
    ModelConfig config = OfFamily("gemma3", GpuConfig());
    config.others->window = window;
    ExpectWhatTheCpuSays(config);
  }
}

TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithHeadsOf256) {
  ModelConfig config = GpuConfig();
  config.head_dim = 256;
  ExpectWhatTheCpuSays(config);
}

TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithUnrotatedLayers) {
  ExpectWhatTheCpuSays(OfFamily("smollm3", GpuConfig()));
}

// Chunks of prompts have enough rows for both products that end in a residual.
TEST(CudaExecutorTest, SaysWhatTheCpuSaysInParts) {
  ModelConfig config = GpuConfig();
  config.hidden = 72;
  config.ffn = 512;
  ExpectWhatTheCpuSays(config);
}

// The kernels of small batches do not serve it.
TEST(CudaExecutorTest, SaysWhatTheCpuSaysWithOddSizes) {
  ModelConfig config = GpuConfig();
  config.ffn = 52;
  ExpectWhatTheCpuSays(config);
}

StepSegment PromptOf(SequenceSlot slot, uint32_t tokens, uint64_t seed, int top_logprobs) {
  StepSegment segment;
  segment.slot = slot;
  segment.prompt = true;
  for (const uint32_t token : RandomTokens(tokens, 101, seed)) segment.tokens.emplace_back(token);
  segment.want_output = true;
  segment.top_logprobs = top_logprobs;
  return segment;
}

constexpr bool Whole(uint32_t row) { return row % 9 == 0 || row > 125; }

// More outputs than one product of logits has rows, each by its own parameters, in the order of the
// batch; what the device chose is what the CPU's sampler chooses of the same distribution.
TEST(CudaExecutorTest, SamplesAsTheCpuDoes) {
  const RandomModel model(GpuConfig(), 5);
  CudaHarness harness(model, {.max_rows = 200}, 600);
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  StepBatch batch;
  for (uint32_t i = 0; i < 131; ++i) {
    const SequenceSlot slot = harness.executor().tables().Acquire(ScoreKind::kNone);
    harness.executor().tables().Extend(slot, harness.pool().Take(1));
    // The whole distribution of some: it takes its time.
    StepSegment segment = PromptOf(slot, i % 9 == 0 ? 2 : 1, i, Whole(i) ? 101 : -1);
    segment.sampling = {0.5f + 0.01f * static_cast<float>(i), i % 7, i % 2 == 0 ? 1.0f : 0.9f,
                        i % 5 == 0 ? 0.05f : 0.0f, i};
    if (i % 10 == 9) segment.target = TokenId(i % 101);
    batch.segments.push_back(std::move(segment));
  }
  const StepOutput output = harness.executor().Collect(harness.executor().Enqueue(batch));
  ASSERT_TRUE(output.status.ok()) << output.status;
  ASSERT_EQ(output.outputs.size(), batch.segments.size());
  for (uint32_t i = 0; i < output.outputs.size(); ++i) {
    const StepSegment& segment = batch.segments[i];
    const SegmentOutput& out = output.outputs[i];
    ASSERT_EQ(out.slot, segment.slot);
    if (!Whole(i)) continue;
    ASSERT_EQ(out.top.size(), 101u);
    const std::vector<float> logprobs = ByToken(out);
    EXPECT_EQ(out.logprob, logprobs[out.token.value()]);
    double sum = 0;
    for (const float logprob : logprobs) sum += std::exp(logprob);
    EXPECT_NEAR(sum, 1, 1e-4);
    const Position next(static_cast<uint32_t>(segment.tokens.size()));
    EXPECT_EQ(out.token, segment.target.has_value() ? *segment.target
                                                    : Sample(logprobs, segment.sampling, next))
        << "row " << i;
  }
}

TEST(CudaExecutorTest, LogprobsAreOnlyOnRequest) {
  const RandomModel model(GpuConfig(), 6);
  CudaHarness harness(model);
  ASSERT_TRUE(harness.made().ok());
  StepBatch batch;
  for (const int top : {-1, 0, 3, 1000}) {
    const SequenceSlot slot = harness.executor().tables().Acquire(ScoreKind::kNone);
    harness.executor().tables().Extend(slot, harness.pool().Take(1));
    batch.segments.push_back(PromptOf(slot, 4, 1, top));
  }
  const StepOutput output = harness.executor().Collect(harness.executor().Enqueue(batch));
  ASSERT_TRUE(output.status.ok());
  const uint32_t sizes[] = {0, 0, 3, 101};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(output.outputs[i].top.size(), sizes[i]);
    EXPECT_EQ(output.outputs[i].token, output.outputs[3].top[0].first);
    EXPECT_EQ(output.outputs[i].logprob, i == 0 ? 0 : output.outputs[3].top[0].second);
  }
}

TEST(CudaExecutorTest, ALogitThatIsNotFiniteFailsItsSegment) {
  RandomModel model(GpuConfig(), 1);
  // Finite weights whose products are not.
  model.SetMatrix(Role::kOutput, 0,
                  std::vector<kernels::bf16>(size_t{101} * 40, kernels::bf16::Round(3e38f)));
  CudaHarness harness(model);
  ASSERT_TRUE(harness.made().ok());
  const SequenceSlot slot = harness.executor().tables().Acquire(ScoreKind::kNone);
  harness.executor().tables().Extend(slot, harness.pool().Take(1));
  const StepOutput output =
      harness.executor().Collect(harness.executor().Enqueue({{PromptOf(slot, 3, 1, -1)}}));
  EXPECT_TRUE(output.status.ok()) << output.status;
  EXPECT_EQ(output.outputs.at(0).status, NotFinite(Position(3)));
  EXPECT_TRUE(harness.executor().fault().ok());
}

TEST(CudaExecutorTest, NamesATensorOfTheWrongSize) {
  RandomModel model(GpuConfig(), 1);
  model.SetMatrix(Role::kDown, 1, std::vector<kernels::bf16>(7));
  std::vector<int> percents;
  const CudaHarness harness(
      model, {.max_rows = 8, .progress = [&](int percent) { percents.push_back(percent); }}, 4);
  EXPECT_EQ(harness.made(),
            absl::InvalidArgumentError(
                "the down matrix of layer 1 has 7 elements, the configuration wants 2560"));
  EXPECT_EQ(percents, (std::vector<int>{33, 66}));
}

// A worker that attaches to another manager makes a new executor.
TEST(CudaExecutorTest, AnotherExecutorHasTheSameWeights) {
  const RandomModel model(GpuConfig(), 8);
  int told = 0;
  // Two that were tuned may have other algorithms.
  CudaHarness harness(model, {.tune = false, .progress = [&](int) { ++told; }});
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  const auto run = [&] {
    const SequenceSlot slot = harness.executor().tables().Acquire(ScoreKind::kNone);
    harness.executor().tables().Extend(slot, harness.pool().Take(1));
    return harness.executor().Collect(harness.executor().Enqueue({{PromptOf(slot, 9, 1, 101)}}));
  };
  const StepOutput first = run();
  ASSERT_TRUE(first.status.ok()) << first.status;
  EXPECT_GT(told, 0);
  told = 0;
  harness.MakeAnotherExecutor();
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  EXPECT_EQ(told, 0) << "the weights were loaded again";
  const StepOutput second = run();
  ASSERT_TRUE(second.status.ok()) << second.status;
  EXPECT_EQ(first.outputs.at(0).top, second.outputs.at(0).top);
}

std::string Refusal(const ModelConfig& config, const CudaHarnessOptions& options) {
  const RandomModel model(config, 1);
  return std::string(CudaHarness(model, options, 4).made().message());
}

TEST(CudaExecutorTest, NamesWhatDoesNotFit) {
  EXPECT_EQ(Refusal(GpuConfig(), {.max_rows = 8}), "");
  EXPECT_EQ(Refusal(GpuConfig(), {.max_rows = 0}), "max_rows must be at least 1");
  EXPECT_EQ(Refusal(GpuConfig(), {.max_rows = 8, .load_threads = 0}), "threads must be at least 1");
  EXPECT_EQ(Refusal(TinyConfig(), {.max_rows = 8}),
            "CUDA attention: head_dim must be 64, 128 or 256, not 24");
  EXPECT_EQ(Refusal(GpuConfig(), {.device = 99}).substr(0, 18), "there is no GPU 99");
  EXPECT_EQ(Refusal(GpuConfig(), {.max_rows = 8, .gpu_memory = 100000}),
            "GPU memory: the weights (0.2 MiB) did not fit: 0.0 MiB of the 0.1 MiB allowed are "
            "taken");
  // Which of the larger parts lies beyond the end depends on the GPU.
  const std::string refusal = Refusal(GpuConfig(), {.max_rows = 8, .gpu_memory = 10 << 20});
  EXPECT_TRUE(absl::StartsWith(refusal, "GPU memory: the workspace of products (") ||
              absl::StartsWith(refusal, "GPU memory: parts of attention ("))
      << refusal;
  EXPECT_TRUE(absl::StrContains(refusal, " did not fit: ")) << refusal;
}

TEST(CudaExecutorTest, NamesAFeatureThatItDoesNotCompute) {
  ModelConfig config = GpuConfig();
  config.features = {Feature::kSoftCaps};
  EXPECT_EQ(Refusal(config, {.max_rows = 8}),
            "model tiny of the family llama has soft caps of scores and logits, which the CUDA "
            "transformer does not compute");
}

// A step whose memory does not fit fails alone; the next one, which needs less, does not.
TEST(CudaExecutorTest, AStepThatDoesNotFitFailsAlone) {
  ModelConfig config = GpuConfig();
  config.vocab = 20000;
  config.hidden = 8;
  const RandomModel model(config, 3);
  const auto device = kernels::cuda::UseDevice(0);
  ASSERT_TRUE(device.ok()) << device.status();
  const size_t spaces = kernels::cuda::Gemm::kWorkspaceBytes +
                        kernels::cuda::AttentionPartsBytes(
                            {config.heads, config.kv_heads, config.head_dim}, device->processors);
  CudaHarness harness(model, {.max_rows = 256, .gpu_memory = spaces + (size_t{32} << 20)});
  ASSERT_TRUE(harness.made().ok()) << harness.made();
  const auto run = [&](uint32_t sequences, int top_logprobs) {
    StepBatch batch;
    for (uint32_t i = 0; i < sequences; ++i) {
      const SequenceSlot slot = harness.executor().tables().Acquire(ScoreKind::kNone);
      harness.executor().tables().Extend(slot, harness.pool().Take(1));
      batch.segments.push_back(PromptOf(slot, 2, i, top_logprobs));
    }
    StepOutput output = harness.executor().Collect(harness.executor().Enqueue(batch));
    for (const StepSegment& segment : batch.segments)
      harness.executor().tables().Release(segment.slot);
    return output.status;
  };
  EXPECT_TRUE(run(1, 0).ok());
  const absl::Status failed = run(120, 20000);
  EXPECT_EQ(failed.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(failed.message().find("log-probabilities of a step"), absl::string_view::npos)
      << failed;
  EXPECT_TRUE(harness.executor().fault().ok());
  EXPECT_TRUE(run(1, 0).ok());
}

}  // namespace
}  // namespace folio::model::testing
