// Decode steps as CUDA graphs: the same as kernel by kernel, to the bit, whatever comes between.
#include "services/model/cuda/cuda_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/cuda/decode_shapes.h"
#include "tests/gpu/cuda_executor_harness.h"
#include "tests/gpu/decode_batch.h"
#include "tests/model/conversation.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

TEST(DecodeShapesTest, PaddingIsSmallAndShapesAreFew) {
  struct Case {
    uint32_t rows, padded;
  };
  for (const auto& [rows, padded] : {Case{0, 0},
                                     {1, 1},
                                     {2, 2},
                                     {3, 4},
                                     {4, 4},
                                     {5, 8},
                                     {8, 8},
                                     {9, 16},
                                     {16, 16},
                                     {17, 24},
                                     {127, 128},
                                     {128, 128},
                                     {129, 160},
                                     {511, 512},
                                     {512, 512},
                                     {513, 513},
                                     {9999, 9999}}) {
    EXPECT_EQ(PaddedRows(rows, 10000), padded);
  }
  // A step never has more rows than the executor.
  EXPECT_EQ(PaddedRows(5, 6), 6u);
  EXPECT_EQ(PaddedRows(6, 6), 6u);
}

// Everything an executor can be asked for.
TEST(CudaGraphsTest, AConversationIsTheSameWithGraphs) {
  const RandomModel model(GpuConfig(), 1234);
  CudaHarness with(model, Options(true));
  CudaHarness without(model, Options(false));
  ASSERT_TRUE(with.made().ok() && without.made().ok());
  Transcript one;
  Transcript other;
  Stage stage{with.executor(), with.pool(), with.board()};
  Stage plain{without.executor(), without.pool(), without.board()};
  EXPECT_EQ(Play(stage, model.config(), /*forced=*/false, one), "");
  EXPECT_EQ(Play(plain, model.config(), /*forced=*/false, other), "");
  EXPECT_EQ(one.tokens, other.tokens);
  EXPECT_EQ(one.logprobs, other.logprobs);
  ExpectSameMemory(with, without);
  const GraphCounts counts = GraphsOf(with.executor());
  EXPECT_GT(counts.replayed, 35u);
  EXPECT_GE(counts.recorded, 2u);
  EXPECT_EQ(counts.refused, 0u);
  if (Emulated()) {
    EXPECT_GT(counts.bytes, 0u);
  }
  EXPECT_EQ(GraphsOf(without.executor()).replayed, 0u);
}

// On both sides of each shape's border, and that of the executor's rows. A sequence says
// nearly the same in any batch.
TEST(CudaGraphsTest, BatchesOfAllSizesAreTheSame) {
  const RandomModel model(GpuConfig(), 8);
  CudaHarness with(model, Options(true, 12));
  CudaHarness without(model, Options(false, 12));
  CudaHarness alone(model, Options(true, 12));
  ASSERT_TRUE(with.made().ok() && without.made().ok() && alone.made().ok());
  DecodeBatch together(with, 12, DecodeBatch::kShortPrompt);
  DecodeBatch plain(without, 12, DecodeBatch::kShortPrompt);
  DecodeBatch apart(alone, 12, DecodeBatch::kShortPrompt);
  uint32_t position = DecodeBatch::kShortPrompt;
  for (const uint32_t size : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 12u}) {
    for (int again = 0; again < 3; ++again, ++position) {
      const std::vector<float> got = together.Step(size, position);
      ASSERT_EQ(got.size(), size);
      EXPECT_EQ(got, plain.Step(size, position)) << size << " sequences";
      for (const uint32_t i : {0u, 2u, 8u}) {
        if (i >= size) continue;
        const float own = apart.StepOf(i, position);
        // Attention is split over as many blocks as the batch leaves room for. Of up to eight rows
        // all else is added in the same order.
        EXPECT_NEAR(got[i], own, Emulated() && size <= 8 ? 0.005f : 0.1f)
            << "sequence " << i << " of " << size;
      }
    }
  }
  ExpectSameMemory(with, without);
  EXPECT_EQ(GraphsOf(with.executor()).recorded, 5u);  // of 1, 2, 4, 8 and 12 rows
}

// Steps of `size` rows, with and without graphs.
void ExpectTheSame(const RandomModel& model, uint32_t size, uint32_t steps) {
  CudaHarness with(model, Options(true));
  CudaHarness without(model, Options(false));
  ASSERT_TRUE(with.made().ok() && without.made().ok());
  DecodeBatch one(with, size, /*prompt=*/0);
  DecodeBatch other(without, size, /*prompt=*/0);
  for (uint32_t position = 0; position < steps; ++position) {
    EXPECT_EQ(one.Step(size, position), other.Step(size, position));
  }
  EXPECT_EQ(GraphsOf(with.executor()).replayed, steps - 1);
  ExpectSameMemory(with, without);
}

// More rows than one product of logits has.
TEST(CudaGraphsTest, LargeBatchesAreTheSame) {
  ModelConfig config = GpuConfig();
  config.num_layers = 1;
  ExpectTheSame(RandomModel(config, 13), 130, 3);
}

// Products in parts, and sums that normalise for the next layer.
TEST(CudaGraphsTest, ProductsInPartsAreTheSame) {
  ModelConfig config = GpuConfig();
  config.num_layers = 3;
  config.ffn = 384;
  ExpectTheSame(RandomModel(config, 14), 20, 4);
}

// Buffers that other steps make grow are not read by a graph.
TEST(CudaGraphsTest, OtherStepsInBetweenChangeNothing) {
  const RandomModel model(GpuConfig(), 9);
  CudaHarness with(model, Options(true));
  CudaHarness without(model, Options(false));
  ASSERT_TRUE(with.made().ok() && without.made().ok());
  DecodeBatch one(with, 3);
  DecodeBatch other(without, 3);
  uint32_t position = DecodeBatch::kPrompt;
  const auto steps = [&] {
    for (int i = 0; i < 3; ++i, ++position) {
      EXPECT_EQ(one.Step(3, position), other.Step(3, position)) << "at " << position;
    }
  };
  steps();
  const uint64_t recorded = GraphsOf(with.executor()).recorded;
  const uint64_t passed = GraphsOf(with.executor()).passed;
  for (DecodeBatch* batch : {&one, &other}) batch->LongPrompt(/*tokens=*/250);
  steps();
  // Lists of the likeliest, in a step of the same rows.
  EXPECT_EQ(one.Step(3, position, /*top_logprobs=*/90), other.Step(3, position, 90));
  ++position;
  steps();
  EXPECT_EQ(one.Step(3, position, /*top_logprobs=*/101), other.Step(3, position, 101));
  ++position;
  steps();
  EXPECT_EQ(GraphsOf(with.executor()).recorded, recorded);
  EXPECT_EQ(GraphsOf(with.executor()).passed, passed + 3);
  ExpectSameMemory(with, without);
}

// Layers that hold different numbers of tokens, in steps of one batch size.
void StepThroughLengths(const ModelConfig& config, uint64_t shapes) {
  const RandomModel model(config, 10);
  CudaHarnessOptions options = Options(true);
  options.decode_kernels = true;
  CudaHarness with(model, options);
  options.graphs = false;
  CudaHarness without(model, options);
  ASSERT_TRUE(with.made().ok() && without.made().ok());
  DecodeBatch one(with, 2);
  DecodeBatch other(without, 2);
  uint32_t position = DecodeBatch::kPrompt;
  const auto steps = [&] {
    for (int i = 0; i < 3; ++i, ++position) {
      EXPECT_EQ(one.Step(2, position), other.Step(2, position)) << "at " << position;
    }
  };
  const auto drop = [&](uint32_t layer, uint32_t block) {
    std::vector<std::optional<BlockIndex>> blocks(3);
    blocks[layer] = BlockIndex(block);
    for (DecodeBatch* batch : {&one, &other}) batch->DropBlocks(1, blocks);
  };
  steps();
  drop(0, 0);
  steps();
  EXPECT_EQ(GraphsOf(with.executor()).recorded, std::min<uint64_t>(shapes, 2));
  drop(1, 1);
  steps();
  EXPECT_EQ(GraphsOf(with.executor()).recorded, shapes);
  drop(2, 0);
  steps();
  // The lengths of the beginning.
  EXPECT_EQ(GraphsOf(with.executor()).recorded, shapes);
  EXPECT_EQ(GraphsOf(with.executor()).replayed, 12 - shapes);
  for (DecodeBatch* batch : {&one, &other}) batch->Compact(0, 20);
  steps();
  ExpectSameMemory(with, without);
}

TEST(CudaGraphsTest, LengthsAreNoPartOfTheShape) {
  ModelConfig config = GpuConfig();
  config.num_layers = 3;
  StepThroughLengths(config, 1);
}

// FlashInfer attends where a KV head has many query heads. It wants a plan for each number of
// tokens that layers hold, which is another graph, and so is which of them have the same.
TEST(CudaGraphsTest, LengthsThatArePlannedAreAnotherShape) {
  ModelConfig config = GpuConfig();
  config.num_layers = 3;
  config.heads = 9;
  config.kv_heads = 1;
  StepThroughLengths(config, 3);
}

// Rows that want nothing, and tokens that are given, are a matter of what a graph reads.
TEST(CudaGraphsTest, WhatIsWantedMayChangeFromStepToStep) {
  const RandomModel model(GpuConfig(), 11);
  CudaHarness with(model, Options(true));
  CudaHarness without(model, Options(false));
  ASSERT_TRUE(with.made().ok() && without.made().ok());
  DecodeBatch one(with, 4);
  DecodeBatch other(without, 4);
  uint32_t position = DecodeBatch::kPrompt;
  for (uint32_t step = 0; step < 8; ++step, ++position) {
    std::vector<StepSegment> segments;
    for (uint32_t i = 0; i < 4; ++i) {
      // A sequence without output has no last token on the device, so it is fed one.
      StepSegment segment = one.Segment(i, position);
      segment.tokens = {TokenId(i + step)};
      segment.want_output = (i + step) % 3 != 0;
      if (segment.want_output && step % 2 == 0) segment.target = TokenId(5 + i);
      segment.sampling = {0.9f, step, 0.8f, 0.01f, i};
      segments.push_back(std::move(segment));
    }
    const std::vector<SegmentOutput> got = one.Run(segments);
    const std::vector<SegmentOutput> want = other.Run(segments);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].slot, want[i].slot);
      EXPECT_EQ(got[i].token, want[i].token);
      EXPECT_EQ(got[i].logprob, want[i].logprob);
      if (step % 2 == 0) {
        EXPECT_EQ(got[i].token.value(), 5 + got[i].slot.value());
      }
    }
  }
  EXPECT_EQ(GraphsOf(with.executor()).replayed, 7u);
  ExpectSameMemory(with, without);
}

// However many shapes there are, some are known at a time.
TEST(CudaGraphsTest, ShapesAreForgotten) {
  namespace cuda = kernels::cuda;
  const auto stream = cuda::OwnedStream::Create();
  const auto counter = cuda::PinnedBuffer::Allocate(sizeof(uint64_t), "a counter");
  ASSERT_TRUE(stream.ok() && counter.ok());
  cuda::DeviceMemory memory(0);
  {
    CudaGraphs graphs(memory, stream->get(), /*enabled=*/true);
    for (uint64_t shape = 0; shape < 300; ++shape) {
      for (uint64_t i = 1; i <= 3; ++i) {
        const auto enqueue = [&] {
          return cuda::CountStep(stream->get(), counter->on_device<uint64_t>(), shape);
        };
        ASSERT_TRUE(graphs.Run({1, shape}, enqueue).ok());
        ASSERT_TRUE(cuda::WaitFor(stream->get()).ok());
        ASSERT_EQ(*counter->as<uint64_t>(), shape);
      }
    }
    EXPECT_EQ(graphs.counts().recorded, 300u);
    EXPECT_EQ(graphs.counts().replayed, 600u);
    EXPECT_EQ(memory.taken(), graphs.counts().bytes);
    if (Emulated()) {
      EXPECT_EQ(graphs.counts().bytes, (300 - 256) * 1024u);
    }
  }
  EXPECT_EQ(memory.taken(), 0u);
}

}  // namespace
}  // namespace folio::model::testing
