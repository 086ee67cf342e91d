// Tests of faults that the emulation of graphs notices and a GPU may not.
#include "kernels/cuda/runtime/graph.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/emulator/runtime.h"

namespace folio::emulate {
namespace {

using kernels::cuda::CopyToDevice;
using kernels::cuda::DeviceMemory;
using kernels::cuda::Event;
using kernels::cuda::Graph;
using kernels::cuda::OwnedStream;
using kernels::cuda::PinnedBuffer;

TEST(EmulatedGraphTest, PageableCopiesAndEventsAreNotRecorded) {
  const auto stream = OwnedStream::Create();
  auto event = Event::Create();
  DeviceMemory memory(0);
  const auto there = memory.Allocate(64, "numbers");
  const auto locked = PinnedBuffer::Allocate(64, "numbers");
  ASSERT_TRUE(stream.ok() && event.ok() && there.ok() && locked.ok());
  ASSERT_TRUE(event->Record(stream->get()).ok());
  const std::vector<char> pageable(64);
  const auto copy = [&](const void* from) {
    return Graph::Capture(stream->get(), [&] {
      CopyToDevice(stream->get(), there->as<>(), from, 64).IgnoreError();
      return absl::OkStatus();
    });
  };
  EXPECT_TRUE(copy(locked->as<>()).ok());
  EXPECT_EQ(copy(pageable.data()).status().message(),
            "a recording failed: operation failed due to a previous error during capture");
  const auto wait = Graph::Capture(stream->get(), [&] { return event->Wait(); });
  EXPECT_EQ(wait.status().message(),
            "the device failed: operation not permitted when stream is capturing");
  const auto record = Graph::Capture(stream->get(), [&] { return event->Record(stream->get()); });
  EXPECT_FALSE(record.ok());
  EXPECT_TRUE(event->Wait().ok());
}

// See Gemm: what chooses an algorithm does not work while a stream is recorded.
TEST(EmulatedGraphTest, AShapesFirstProductIsNotRecorded) {
  const auto stream = OwnedStream::Create();
  DeviceMemory memory(0);
  const auto numbers = memory.Allocate(4096, "numbers");
  const auto gemm = kernels::cuda::Gemm::Create(nullptr, 0);
  ASSERT_TRUE(stream.ok() && numbers.ok() && gemm.ok());
  const kernels::cuda::Tensor in{numbers->as<void>(), kernels::cuda::DataType::kBf16, 2, 8, 8};
  const kernels::cuda::Tensor out{numbers->as<>() + 1024, kernels::cuda::DataType::kFloat32, 2, 2,
                                  4};
  const auto multiply = [&] { return (*gemm)->Multiply(stream->get(), in, in, out, false); };
  EXPECT_FALSE(Graph::Capture(stream->get(), multiply).ok());
  EXPECT_TRUE(Graph::Capture(stream->get(), multiply).ok());
}

TEST(EmulatedGraphTest, GraphsTakeMemoryAndGiveItBack) {
  const auto stream = OwnedStream::Create();
  const auto counter = PinnedBuffer::Allocate(8, "a counter");
  ASSERT_TRUE(stream.ok() && counter.ok());
  const size_t before = AllocatedBytes();
  const uint64_t launched = GraphsLaunched();
  {
    const auto graph = Graph::Capture(stream->get(), [&] {
      return kernels::cuda::CountStep(stream->get(), counter->on_device<uint64_t>(), 3);
    });
    ASSERT_TRUE(graph.ok());
    EXPECT_GT(graph->bytes(), 0u);
    EXPECT_EQ(AllocatedBytes(), before + graph->bytes());
    ASSERT_TRUE(graph->Launch(stream->get()).ok());
    ASSERT_TRUE(kernels::cuda::WaitFor(stream->get()).ok());
  }
  EXPECT_EQ(AllocatedBytes(), before);
  EXPECT_EQ(GraphsLaunched(), launched + 1);
}

TEST(EmulatedGraphDeathTest, AGraphThatIsUnderWayStays) {
  EXPECT_DEATH(
      {
        const auto stream = OwnedStream::Create();
        const auto counter = PinnedBuffer::Allocate(8, "a counter");
        const auto graph = Graph::Capture(stream->get(), [&] {
          return kernels::cuda::CountStep(stream->get(), counter->on_device<uint64_t>(), 3);
        });
        graph->Launch(stream->get()).IgnoreError();
      },
      "destroyed while the device runs it");
}

}  // namespace
}  // namespace folio::emulate
