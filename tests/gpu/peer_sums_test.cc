// Short sums over ranks by the kernel that reads the other ranks' GPUs. Each rank has a GPU.
#include "services/model/cuda/peer_sums.h"

#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/cuda/device_weights.h"
#include "tests/collective/ranks.h"
#include "tests/gpu/device_data.h"

namespace folio::model {
namespace {

namespace cuda = kernels::cuda;
using collective::Collective;
using kernels::bf16;

// What a test does on a rank; it returns an error text or nothing.
using OnRank = std::function<std::string(PeerSums&, cuda::Stream, uint32_t rank)>;

std::vector<bf16> PartOf(uint32_t rank, uint32_t round, size_t count) {
  std::vector<bf16> part(count);
  cuda::Random random(100 * round + rank);
  const std::vector<float> floats = cuda::RandomFloats(random, count);
  for (size_t i = 0; i < count; ++i) part[i] = bf16::Round(floats[i] * (rank == 1 ? 100.0f : 1.0f));
  return part;
}

std::vector<bf16> SumOf(uint32_t ranks, uint32_t round, size_t count) {
  std::vector<float> sums(count);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const std::vector<bf16> part = PartOf(rank, round, count);
    for (size_t i = 0; i < count; ++i) {
      sums[i] = rank == 0 ? part[i].ToFloat() : sums[i] + part[i].ToFloat();
    }
  }
  std::vector<bf16> rounded(count);
  for (size_t i = 0; i < count; ++i) rounded[i] = bf16::Round(sums[i]);
  return rounded;
}

bool Same(const std::vector<bf16>& one, const std::vector<bf16>& other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [](bf16 a, bf16 b) { return a.bits == b.bits; });
}

class PeerSumsTest : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    const auto devices = cuda::DeviceUuids();
    ASSERT_TRUE(devices.ok()) << devices.status();
    if (devices->size() < GetParam()) GTEST_SKIP() << "needs " << GetParam() << " GPUs";
  }

  void Run(const OnRank& work, bool one_gpu = false) {
    const auto body = [&](Collective& host) -> std::string {
      const uint32_t rank = host.rank().value();
      if (absl::Status bound = cuda::BindDevice(one_gpu ? 0 : static_cast<int>(rank)); !bound.ok())
        return bound.ToString();
      cuda::DeviceMemory memory(0);
      const auto stream = cuda::OwnedStream::Create();
      const auto sums = PeerSums::Make(host, memory, SteadyNow() + absl::Seconds(20));
      if (!stream.ok() || !sums.ok()) return "it was not made";
      if ((*sums == nullptr) != one_gpu) return one_gpu ? "one GPU?" : "peers were not mapped";
      std::string wrong = one_gpu ? "" : work(**sums, stream->get(), rank);
      cuda::WaitFor(stream->get()).IgnoreError();
      // The others may still read this rank's memory.
      std::vector<float> all_done(1);
      const absl::Status done =
          host.AllReduce(absl::MakeSpan(all_done), SteadyNow() + absl::Seconds(60));
      return wrong.empty() && !done.ok() ? done.ToString() : wrong;
    };
    const auto said = collective::testing::RunRanks(collective::testing::RanksAre::kThreads,
                                                    GetParam(), 1 << 12, body);
    for (uint32_t rank = 0; rank < GetParam(); ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  }
};

TEST_P(PeerSumsTest, SumsEqualTheirTwinOnAllRanks) {
  Run([&](PeerSums& sums, cuda::Stream stream, uint32_t rank) -> std::string {
    uint32_t round = 0;
    for (const uint32_t hidden : {40u, 101u, 579u, 2048u}) {
      for (const uint32_t rows : {1u, 3u, 8u, 64u}) {
        const size_t count = rows * DeviceStride(hidden);
        for (int again = 0; again < 3; ++again, ++round) {
          const cuda::OnDevice<bf16> values(PartOf(rank, round, count));
          if (absl::Status status = sums.AllReduce(stream, values.data(), count); !status.ok())
            return status.ToString();
          if (!cuda::WaitFor(stream).ok()) return "it failed";
          if (Same(values.Read(), SumOf(GetParam(), round, count))) continue;
          return absl::StrCat("another sum of ", rows, " rows of ", hidden);
        }
      }
    }
    return "";
  });
}

// Sums of other sizes follow each other without a wait.
TEST_P(PeerSumsTest, SizesMayChange) {
  Run([&](PeerSums& sums, cuda::Stream stream, uint32_t rank) -> std::string {
    std::vector<std::unique_ptr<cuda::OnDevice<bf16>>> values;
    constexpr size_t kCounts[] = {40, 60000, 2048, 131072, 8, 5000};
    for (uint32_t round = 0; round < 30; ++round) {
      const size_t count = kCounts[round % std::size(kCounts)];
      values.push_back(std::make_unique<cuda::OnDevice<bf16>>(PartOf(rank, round, count)));
    }
    absl::Status status;
    for (uint32_t round = 0; round < 30; ++round) {
      const size_t count = kCounts[round % std::size(kCounts)];
      status.Update(sums.AllReduce(stream, values[round]->data(), count));
    }
    status.Update(cuda::WaitFor(stream));
    if (!status.ok()) return status.ToString();
    for (uint32_t round = 0; round < 30; ++round) {
      const size_t count = kCounts[round % std::size(kCounts)];
      if (Same(values[round]->Read(), SumOf(GetParam(), round, count))) continue;
      return absl::StrCat("another sum in round ", round);
    }
    return "";
  });
}

// Sums follow each other without a wait, in graphs and out of them.
TEST_P(PeerSumsTest, ARecordedSumMayFollowAnother) {
  constexpr size_t kCount = 3 * 104;
  Run([&](PeerSums& sums, cuda::Stream stream, uint32_t rank) -> std::string {
    const cuda::OnDevice<bf16> values(std::vector<bf16>(kCount, bf16::Round(rank + 1.0f)));
    const auto sum = [&] { return sums.AllReduce(stream, values.data(), kCount); };
    const auto graph = cuda::Graph::Capture(stream, [&] { return cuda::RunAll({sum, sum, sum}); });
    if (!graph.ok()) return graph.status().ToString();
    absl::Status status = sum();
    for (int launch = 0; launch < 3; ++launch) status.Update(graph->Launch(stream));
    status.Update(sum());
    status.Update(cuda::WaitFor(stream));
    if (!status.ok()) return status.ToString();
    // After the first sum all ranks have the same numbers, which grow by the number of ranks. They
    // are exact: powers of two times a small number.
    float want = 0;
    for (uint32_t other = 0; other < GetParam(); ++other) want += static_cast<float>(other) + 1;
    for (int i = 0; i < 10; ++i) want *= static_cast<float>(GetParam());
    const std::vector<bf16> all(kCount, bf16::Round(want));
    return Same(values.Read(), all) ? "" : absl::StrCat(values.Read()[0].ToFloat(), ", not ", want);
  });
}

TEST_P(PeerSumsTest, AbortEndsASumThatWaits) {
  Run([&](PeerSums& sums, cuda::Stream stream, uint32_t rank) -> std::string {
    if (rank != 0) return "";
    const cuda::OnDevice<bf16> values(PartOf(rank, 0, 104));
    std::thread abort([&] {
      absl::SleepFor(absl::Milliseconds(100));
      sums.Abort();
    });
    absl::Status status = sums.AllReduce(stream, values.data(), 104);
    status.Update(cuda::WaitFor(stream));
    abort.join();
    // Later sums do not wait either.
    status.Update(sums.AllReduce(stream, values.data(), 104));
    status.Update(cuda::WaitFor(stream));
    return status.ok() ? "" : status.ToString();
  });
}

TEST_P(PeerSumsTest, RanksThatShareAGpuHaveNone) { Run(nullptr, /*one_gpu=*/true); }

INSTANTIATE_TEST_SUITE_P(Ranks, PeerSumsTest, testing::Values(2u, 4u));

}  // namespace
}  // namespace folio::model
