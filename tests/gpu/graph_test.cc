// Graphs: what is recorded, what may not be, and what a launch reads.
#include "kernels/cuda/runtime/graph.h"

#include <numeric>

#include "kernels/cuda/ops/step.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

constexpr size_t kCount = 200;
constexpr size_t kBytes = kCount * sizeof(uint32_t);

class GpuGraphTest : public testing::Test {
 protected:
  GpuGraphTest() : stream_(OwnedStream::Create()), memory_(0) {
    for (DeviceBuffer* buffer : {&ids_, &out_}) {
      auto made = memory_.Allocate(kBytes, "numbers");
      FOLIO_CHECK(made.ok());
      *buffer = *std::move(made);
    }
    for (PinnedBuffer* buffer : {&from_, &back_}) {
      auto made = PinnedBuffer::Allocate(kBytes, "numbers");
      FOLIO_CHECK(made.ok());
      *buffer = *std::move(made);
      std::fill_n(buffer->as<uint32_t>(), kCount, 0);
    }
  }
  Stream stream() const { return stream_->get(); }

  // Numbers go there, through a kernel, and back.
  absl::Status Enqueue() {
    return RunAll(
        {[&] { return CopyToDevice(stream(), ids_.as<>(), from_.as<>(), kBytes); },
         [&] {
           return FeedTokens(stream(), {ids_.as<uint32_t>(), kCount}, nullptr, out_.as<uint32_t>());
         },
         [&] { return CopyToHost(stream(), back_.as<>(), out_.as<>(), kBytes); }});
  }
  void Fill(uint32_t first) {
    std::iota(from_.as<uint32_t>(), from_.as<uint32_t>() + kCount, first);
  }
  // The stream does what it is told.
  void ExpectWorks(uint32_t first) {
    Fill(first);
    ASSERT_TRUE(Enqueue().ok());
    ASSERT_TRUE(WaitFor(stream()).ok());
    EXPECT_EQ(back_.as<uint32_t>()[0], first);
    EXPECT_EQ(back_.as<uint32_t>()[kCount - 1], first + kCount - 1);
  }
  // The recording fails because of `meddle`, whose error is ignored.
  void ExpectNoGraph(absl::FunctionRef<void()> meddle) {
    const auto graph = Graph::Capture(stream(), [&] {
      absl::Status status = Enqueue();
      meddle();
      return status;
    });
    EXPECT_EQ(graph.status().code(), absl::StatusCode::kInternal) << graph.status();
    ExpectWorks(900);
  }

  absl::StatusOr<OwnedStream> stream_;
  DeviceMemory memory_;
  DeviceBuffer ids_, out_;
  PinnedBuffer from_, back_;
};

TEST_F(GpuGraphTest, LaunchesDoWhatWasRecorded) {
  ExpectWorks(1);  // what a first run loads
  Fill(50);
  const auto graph = Graph::Capture(stream(), [&] { return Enqueue(); });
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_TRUE(WaitFor(stream()).ok());
  EXPECT_EQ(back_.as<uint32_t>()[0], 1u) << "recording did something";
  for (const uint32_t first : {50u, 7000u, 3u}) {
    Fill(first);
    ASSERT_TRUE(graph->Launch(stream()).ok());
    ASSERT_TRUE(WaitFor(stream()).ok());
    EXPECT_EQ(back_.as<uint32_t>()[0], first);
    EXPECT_EQ(back_.as<uint32_t>()[kCount - 1], first + kCount - 1);
  }
}

// Between other work of the stream.
TEST_F(GpuGraphTest, LaunchesKeepTheStreamsOrder) {
  ExpectWorks(1);
  const auto record = [&](uint64_t step) {
    return Graph::Capture(
        stream(), [this, step] { return CountStep(stream(), back_.on_device<uint64_t>(), step); });
  };
  const auto five = record(5);
  const auto six = record(6);
  ASSERT_TRUE(five.ok() && six.ok());
  ASSERT_TRUE(six->Launch(stream()).ok());
  ASSERT_TRUE(CountStep(stream(), back_.on_device<uint64_t>(), 9).ok());
  ASSERT_TRUE(five->Launch(stream()).ok());
  ASSERT_TRUE(CopyToDevice(stream(), out_.as<>(), back_.as<>(), sizeof(uint64_t)).ok());
  ASSERT_TRUE(six->Launch(stream()).ok());
  ASSERT_TRUE(CopyToHost(stream(), from_.as<>(), out_.as<>(), sizeof(uint64_t)).ok());
  ASSERT_TRUE(WaitFor(stream()).ok());
  EXPECT_EQ(*back_.as<uint64_t>(), 6u);
  EXPECT_EQ(*from_.as<uint64_t>(), 5u);
}

TEST_F(GpuGraphTest, WaitingAndAllocatingAreNotRecorded) {
  ExpectWorks(1);
  ExpectNoGraph([&] { WaitFor(stream()).IgnoreError(); });
  ExpectNoGraph([&] { memory_.Allocate(64, "some").status().IgnoreError(); });
}

TEST_F(GpuGraphTest, AnErrorOfWhatIsRecordedIsItsError) {
  const auto graph =
      Graph::Capture(stream(), [&] { return absl::InvalidArgumentError("no such shape"); });
  EXPECT_EQ(graph.status(), absl::InvalidArgumentError("no such shape"));
  ExpectWorks(77);
  EXPECT_EQ(Graph::Capture(nullptr, [] { return absl::OkStatus(); }).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace folio::kernels::cuda
