// The conformance suite: what the calls give.
#include <algorithm>
#include <cstring>
#include <random>

#include "absl/time/clock.h"
#include "services/base/steady_time.h"
#include "tests/collective/conformance.h"

namespace folio::collective::testing {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(20);

// Whatever a rank gives, every rank can tell: drawn from the seed and the rank.
std::vector<float> Floats(uint32_t seed, uint32_t rank, size_t count) {
  std::mt19937 random(seed * 64 + rank);
  // Sums depend on their order.
  std::lognormal_distribution<float> wide(0, 6);
  std::vector<float> values(count);
  for (float& value : values) value = wide(random) * (random() % 2 ? 1.0f : -1.0f);
  return values;
}

std::string Bytes(uint32_t seed, uint32_t rank, size_t count) {
  std::mt19937 random(seed * 64 + rank);
  std::string bytes(count, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string CheckAllReduce(Collective& group, uint32_t seed, size_t count) {
  std::vector<float> want(count, 0);
  for (uint32_t rank = 0; rank < group.size(); ++rank) {
    const std::vector<float> add = Floats(seed, rank, count);
    for (size_t i = 0; i < count; ++i) want[i] = rank == 0 ? add[i] : want[i] + add[i];
  }
  std::vector<float> values = Floats(seed, group.rank().value(), count);
  const absl::Status status = group.AllReduce(absl::MakeSpan(values), SteadyNow() + kSoon);
  if (!status.ok()) return status.ToString();
  return values == want ? "" : absl::StrCat("another sum of ", count, " floats");
}

std::string CheckGather(Collective& group, uint32_t seed, size_t count, bool for_all) {
  std::vector<size_t> sizes;
  std::string want;
  for (uint32_t rank = 0; rank < group.size(); ++rank) {
    sizes.push_back(count * rank % 700);
    want += Bytes(seed, rank, sizes.back());
  }
  const uint32_t me = group.rank().value();
  const std::string mine = Bytes(seed, me, sizes[me]);
  const bool reads = for_all || group.leads();
  std::string all(reads ? want.size() : 0, 0);
  const auto bytes = [](const std::string& text) {
    return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
  };
  const auto to = absl::MakeSpan(reinterpret_cast<std::byte*>(all.data()), all.size());
  const absl::Status status = for_all ? group.AllGather(bytes(mine), sizes, to, SteadyNow() + kSoon)
                                      : group.Gather(bytes(mine), sizes, to, SteadyNow() + kSoon);
  if (!status.ok()) return status.ToString();
  return !reads || all == want ? "" : absl::StrCat("other bytes gathered of ", count);
}

std::string CheckBroadcast(Collective& group, uint32_t seed, size_t count) {
  const std::string want = Bytes(seed, 0, count);
  std::string bytes = group.leads() ? want : "whatever was there";
  const absl::Status status = group.Broadcast(bytes, SteadyNow() + kSoon);
  if (!status.ok()) return status.ToString();
  return bytes == want ? "" : absl::StrCat("other bytes broadcast of ", count);
}

class CollectiveCallsTest : public CollectiveTest {};

TEST_P(CollectiveCallsTest, RanksKnowWhoTheyAre) {
  const std::vector<std::string> said = Run([](Collective& group) {
    return absl::StrCat(group.rank().value(), " of ", group.size(), group.leads() ? " leads" : "");
  });
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(said[rank], absl::StrCat(rank, " of ", ranks(), rank == 0 ? " leads" : ""));
  }
}

TEST_P(CollectiveCallsTest, SumsAreInTheOrderOfTheRanks) {
  ExpectGood(Run([](Collective& group) -> std::string {
    for (const size_t count : {0, 1, 2, 63, 64, 65, 128, 1000, 3000}) {
      for (uint32_t seed = 0; seed < 3; ++seed) {
        if (std::string wrong = CheckAllReduce(group, seed, count); !wrong.empty()) return wrong;
      }
    }
    return "";
  }));
}

TEST_P(CollectiveCallsTest, SumsFitIntoLargeBuffersToo) {
  ExpectGood(Run([](Collective& group) { return CheckAllReduce(group, 5, 100'000); }, 1 << 20));
}

TEST_P(CollectiveCallsTest, PiecesAreGathered) {
  ExpectGood(Run([](Collective& group) -> std::string {
    for (const size_t count : {0, 1, 255, 256, 257, 600, 699}) {
      for (const bool for_all : {true, false, false, true}) {
        std::string wrong = CheckGather(group, static_cast<uint32_t>(count), count, for_all);
        if (!wrong.empty()) return wrong;
      }
    }
    return "";
  }));
}

TEST_P(CollectiveCallsTest, TheLeadersBytesReachAll) {
  ExpectGood(Run([](Collective& group) -> std::string {
    for (const size_t count : {0, 1, 247, 248, 249, 503, 504, 505, 10'000}) {
      std::string wrong = CheckBroadcast(group, static_cast<uint32_t>(count), count);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }));
}

// Ranks of unequal speed, so that all buffers are in use at a time.
TEST_P(CollectiveCallsTest, AnyCallsInAnyOrder) {
  ExpectGood(Run([](Collective& group) -> std::string {
    std::mt19937 plan(99), pauses(group.rank().value());
    for (uint32_t call = 0; call < 150; ++call) {
      const uint32_t kind = plan() % 4;
      const size_t count = plan() % 300;
      if (pauses() % 32 == 0) absl::SleepFor(absl::Microseconds(pauses() % 500));
      std::string wrong = kind == 0   ? CheckAllReduce(group, call, count)
                          : kind == 1 ? CheckBroadcast(group, call, 3 * count)
                                      : CheckGather(group, call, count, kind == 2);
      if (!wrong.empty()) return absl::StrCat("call ", call, ": ", wrong);
    }
    return "";
  }));
}

// A rank that has done its part may leave before the others have done theirs.
TEST_P(CollectiveCallsTest, LeavingInOrderIsNoFailure) {
  ExpectGood(Run([](Collective& group) {
    if (group.leads()) absl::SleepFor(absl::Milliseconds(50));
    return CheckGather(group, 1, 100, false);
  }));
}

FOLIO_INSTANTIATE_COLLECTIVE_TEST(CollectiveCallsTest);

}  // namespace
}  // namespace folio::collective::testing
