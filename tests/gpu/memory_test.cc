// Memory of the device and of the host beside it, streams and copies.
#include "kernels/cuda/runtime/memory.h"

#include <cstdlib>
#include <numeric>

#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploads.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

void ExpectSaid(const absl::Status& status, absl::StatusCode code, const char* what) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(std::string(status.message()).find(what), std::string::npos) << status;
}

TEST(GpuMemoryTest, ABudgetIsNotPassed) {
  DeviceMemory memory(3 << 20);
  auto one = memory.Allocate(2 << 20, "the first");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(memory.taken(), 2u << 20);
  ExpectSaid(memory.Allocate((1 << 20) + 1, "the second").status(),
             absl::StatusCode::kResourceExhausted,
             "the second (1.0 MiB) did not fit: 2.0 MiB of the 3.0 MiB allowed are taken");
  EXPECT_TRUE(memory.Allocate(1 << 20, "the second").ok());
  *one = DeviceBuffer();
  EXPECT_EQ(memory.taken(), 0u);
  EXPECT_TRUE(memory.Allocate(3 << 20, "all").ok());
  EXPECT_EQ(memory.Allocate(0, "nothing")->as<>(), nullptr);
}

TEST(GpuMemoryTest, WhatCudaTookByItselfCounts) {
  DeviceMemory memory(3 << 20);
  {
    auto charge = memory.Charge(2 << 20, "a graph");
    ASSERT_TRUE(charge.ok()) << charge.status();
    const DeviceCharge moved(*std::move(charge));
    EXPECT_EQ(moved.bytes(), 2u << 20);
    EXPECT_EQ(memory.taken(), 2u << 20);
    ExpectSaid(memory.Charge((1 << 20) + 1, "another").status(),
               absl::StatusCode::kResourceExhausted,
               "another (1.0 MiB) did not fit: 2.0 MiB of the 3.0 MiB allowed are taken");
    EXPECT_FALSE(memory.Allocate((1 << 20) + 1, "a buffer").ok());
    EXPECT_TRUE(memory.Charge(0, "nothing").ok());
  }
  EXPECT_EQ(memory.taken(), 0u);
}

TEST(GpuMemoryTest, WhatTheDeviceHasNotIsSaid) {
  const auto info = UseDevice(0);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_FALSE(info->name.empty());
  DeviceMemory memory(0);
  ExpectSaid(memory.Allocate(2 * info->total_bytes, "the weights").status(),
             absl::StatusCode::kResourceExhausted, "the weights");
  EXPECT_EQ(memory.taken(), 0u);
  ExpectSaid(UseDevice(99).status(), absl::StatusCode::kFailedPrecondition, "there is no GPU 99");
}

TEST(GpuMemoryTest, BuffersMove) {
  DeviceMemory memory(0);
  auto made = memory.Allocate(64, "a buffer");
  ASSERT_TRUE(made.ok());
  void* const data = made->as<void>();
  DeviceBuffer moved(*std::move(made));
  EXPECT_EQ(moved.as<void>(), data);
  DeviceBuffer other;
  other = std::move(moved);
  EXPECT_EQ(other.as<void>(), data);
  EXPECT_EQ(memory.taken(), 64u);
}

TEST(GpuMemoryTest, CopiesGoThereAndBackInOrder) {
  const auto stream = OwnedStream::Create();
  auto event = Event::Create();
  ASSERT_TRUE(stream.ok() && event.ok());
  EXPECT_TRUE(event->Wait().ok());  // never recorded
  DeviceMemory memory(0);
  const size_t bytes = 1000 * sizeof(uint32_t);
  const auto there = memory.Allocate(bytes, "numbers");
  const auto from = PinnedBuffer::Allocate(bytes, "numbers");
  const auto back = PinnedBuffer::Allocate(bytes, "numbers");
  ASSERT_TRUE(there.ok() && from.ok() && back.ok());
  std::iota(from->as<uint32_t>(), from->as<uint32_t>() + 1000, 5);
  ASSERT_TRUE(CopyToDevice(stream->get(), there->as<>(), from->as<>(), bytes).ok());
  ASSERT_TRUE(CopyToHost(stream->get(), back->as<>(), there->as<>(), bytes).ok());
  ASSERT_TRUE(event->Record(stream->get()).ok());
  ASSERT_TRUE(event->Wait().ok());
  EXPECT_EQ(back->as<uint32_t>()[0], 5u);
  EXPECT_EQ(back->as<uint32_t>()[999], 1004u);
  EXPECT_TRUE(WaitFor(stream->get()).ok());
}

TEST(GpuMemoryTest, TheHostsMemoryIsReachedWhileItIsRegistered) {
  constexpr size_t kBytes = 8192;
  void* const board = std::aligned_alloc(4096, kBytes);
  ASSERT_NE(board, nullptr);
  {
    const auto registered = RegisteredMemory::Register(board, kBytes, "the board");
    ASSERT_TRUE(registered.ok()) << registered.status();
    EXPECT_NE(registered->on_device(), nullptr);
    ExpectSaid(RegisteredMemory::Register(board, kBytes, "the board").status(),
               absl::StatusCode::kInternal, "cannot reach the board");
  }
  EXPECT_TRUE(RegisteredMemory::Register(board, kBytes, "the board").ok());
  std::free(board);
}

// Uploads of any size are on the device after Flush, and again after Clear.
TEST(GpuMemoryTest, UploadsArriveTogether) {
  const auto stream = OwnedStream::Create();
  ASSERT_TRUE(stream.ok());
  DeviceMemory memory(0);
  Uploads uploads(memory);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::vector<uint32_t>> values;
    std::vector<DeviceArray<uint32_t>> there;
    for (const uint32_t count : {1u, 0u, 3u, 1000u, 600000u, 7u}) {
      values.emplace_back(count);
      std::iota(values.back().begin(), values.back().end(), count + round);
      there.push_back(uploads.Put<uint32_t>(values.back()));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(there.back().data) % 16, 0u);
      // Some are sent before others come.
      if (count == 3) {
        ASSERT_TRUE(uploads.Flush(stream->get()).ok());
      }
    }
    const Uploads::Room<uint64_t> room = uploads.Reserve<uint64_t>(1);
    *room.host = 99;
    ASSERT_TRUE(uploads.Flush(stream->get()).ok());
    ASSERT_TRUE(WaitFor(stream->get()).ok());
    for (size_t i = 0; i < values.size(); ++i) {
      std::vector<uint32_t> got(values[i].size());
      ASSERT_EQ(there[i].size, got.size());
      ASSERT_EQ(cudaMemcpy(got.data(), there[i].data, got.size() * 4, cudaMemcpyDeviceToHost),
                cudaSuccess);
      EXPECT_EQ(got, values[i]);
    }
    uint64_t got = 0;
    ASSERT_EQ(cudaMemcpy(&got, room.device, 8, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(got, 99u);
    uploads.Clear();
  }
}

// The same sizes go to the same addresses, from memory of the host that the last copy does not use.
TEST(GpuMemoryTest, UploadsWithAPlaceStayThere) {
  const auto stream = OwnedStream::Create();
  ASSERT_TRUE(stream.ok());
  DeviceMemory memory(0);
  const size_t bytes = Uploads::BytesOf({3 * sizeof(uint32_t), 0, 100 * sizeof(uint32_t)});
  EXPECT_EQ(bytes, 16u + 0 + 400);
  const auto place = memory.Allocate(bytes, "inputs");
  ASSERT_TRUE(place.ok());
  Uploads even(memory, *place);
  Uploads odd(memory, *place);
  const uint32_t* at = nullptr;
  for (uint32_t round = 0; round < 6; ++round) {
    Uploads& uploads = round % 2 == 0 ? even : odd;
    uploads.Clear();
    uploads.Put<uint32_t>({round, round, round});
    uploads.Put<uint32_t>({});
    const auto there = uploads.Put<uint32_t>(std::vector<uint32_t>(100, round));
    if (round > 0) {
      EXPECT_EQ(there.data, at);
    }
    at = there.data;
    ASSERT_TRUE(uploads.Flush(stream->get()).ok());
    if (round < 2) continue;  // two are on their way at once
    ASSERT_TRUE(WaitFor(stream->get()).ok());
    uint32_t got = 0;
    ASSERT_EQ(cudaMemcpy(&got, at + 99, sizeof(got), cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(got, round);
  }
  EXPECT_EQ(at, place->as<uint32_t>() + 4);
  EXPECT_EQ(memory.taken(), bytes);
}

TEST(GpuMemoryTest, UploadsWithoutMemorySaySo) {
  DeviceMemory memory(3 << 20);
  Uploads uploads(memory);
  uploads.Put<uint32_t>(std::vector<uint32_t>(2 << 20));  // 8 MiB
  EXPECT_EQ(uploads.Put<uint32_t>(std::vector<uint32_t>(5)).data, nullptr);
  ExpectSaid(uploads.Flush(nullptr), absl::StatusCode::kResourceExhausted, "the inputs of a step");
  uploads.Clear();
  uploads.Put<uint32_t>(std::vector<uint32_t>(5));
  EXPECT_TRUE(uploads.Flush(nullptr).ok());
}

}  // namespace
}  // namespace folio::kernels::cuda
