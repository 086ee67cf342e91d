// Key differences, rotated and not, against the plain family.
#include <numeric>

#include "kernels/cuda/scores/scores.h"
#include "tests/gpu/device_runs.h"

namespace folio::kernels::cuda {
namespace {

// One sequence's tokens to score; positions rise, with gaps.
struct Scored {
  Tokens tokens;
  uint32_t first = 0;
  uint32_t stride = 1;
  std::vector<uint32_t> positions = {};
};

constexpr uint32_t kPositions = 2000;

class GpuDifferenceTest : public StoredTest {
 protected:
  Scored Make(RandomPool& pool, uint32_t count, uint32_t first, uint32_t stride) {
    Scored scored{{pool.Table(count), count}, first, stride};
    uint32_t position = 0;
    for (uint32_t i = 0; i < count; ++i, position += 1 + random_() % 4) {
      scored.positions.push_back(position);
    }
    return scored;
  }

  // On the device, on `pool`.
  std::vector<float> Resident(const RandomPool& pool, const std::vector<Scored>& all) {
    PoolOnDevice device(type(), pool);
    DeviceTables tables;
    std::vector<ResidentItem> runs;
    runs.reserve(all.size());
    for (const Scored& one : all) runs.push_back({tables.Put(one.tokens.table), one.tokens.count});
    const OnDevice<ResidentItem> device_runs(runs);
    const absl::Status status = ScoreResident(nullptr, device_runs.array(), device.pool());
    EXPECT_TRUE(status.ok()) << status;
    return device.Scores();
  }
  std::vector<float> Unrotated(const RandomPool& pool, const std::vector<Scored>& all,
                               const Angles& angles) {
    PoolOnDevice device(type(), pool);
    DeviceTables tables;
    const OnDevice<float> cos(angles.cos);
    const OnDevice<float> sin(angles.sin);
    std::vector<UnrotatedItem> runs;
    runs.reserve(all.size());
    for (const Scored& one : all) {
      const uint32_t* table = tables.Put(one.tokens.table);
      runs.push_back({table, tables.Put(one.positions), one.tokens.count, one.first, one.stride});
    }
    const OnDevice<UnrotatedItem> device_runs(runs);
    const absl::Status status = ScoreUnrotated(
        nullptr, device_runs.array(), {cos.data(), sin.data(), angles.positions}, device.pool());
    EXPECT_TRUE(status.ok()) << status;
    return device.Scores();
  }

  // By the plain family.
  void PlainResident(RandomPool& pool, const std::vector<Scored>& all) {
    std::vector<ResidentItem> runs;
    runs.reserve(all.size());
    for (const Scored& one : all) runs.push_back({one.tokens.table.data(), one.tokens.count});
    plain_->ScoreResident(threads_, runs, pool.view());
  }
  void PlainUnrotated(RandomPool& pool, const std::vector<Scored>& all, const Angles& angles) {
    std::vector<UnrotatedItem> runs;
    runs.reserve(all.size());
    for (const Scored& one : all) {
      runs.push_back(
          {one.tokens.table.data(), one.positions.data(), one.tokens.count, one.first, one.stride});
    }
    plain_->ScoreUnrotated(threads_, runs, angles.table(), pool.view());
  }

  // Keys that point somewhere on the whole, and some without a direction.
  RandomPool Pool(const ScoreShape& s, uint32_t pages) {
    RandomPool pool(random_, pages, s.kv_heads, s.head_dim, s.page_tokens);
    for (bf16& x : pool.values) x = bf16::Round(x.ToFloat() * 3 + 0.5f);
    pool.values = RoundNumbers(pool.values);
    return pool;
  }

  std::unique_ptr<cpu::CpuOps> plain_ = cpu::MakePlainOps();
  ThreadPool threads_{1};
};

TEST_P(GpuDifferenceTest, ResidentEqualsPlain) {
  for (const ScoreShape& s : kScoreShapes) {
    SCOPED_TRACE(testing::Message() << s.kv_heads << " x " << s.head_dim);
    RandomPool pool = Pool(s, 130);
    std::vector<Scored> all{{{{}, 0}}};  // padding
    for (const uint32_t count : {1u, 2u, 15u, 16u, 17u, 63u, 64u, 65u, 130u, 400u}) {
      all.push_back(Make(pool, count, 0, 1));
    }
    for (const auto& [run, slot] : {std::pair{1, 0u}, {5, 16u}, {7, 0u}}) {
      std::fill_n(KeyAt(pool, all[run].tokens, s.kv_heads - 1, slot), s.head_dim, bf16{});
    }
    const std::vector<float> got = Resident(pool, all);
    PlainResident(pool, all);
    ExpectNear(got, pool.scores, 0, 5e-6f);
  }
}

TEST_P(GpuDifferenceTest, UnrotatedEqualsPlain) {
  for (const ScoreShape& s : kScoreShapes) {
    SCOPED_TRACE(testing::Message() << s.kv_heads << " x " << s.head_dim);
    const Angles angles(s.head_dim, kPositions);
    RandomPool pool = Pool(s, 130);
    std::vector<Scored> all{{{{}, 0}}};
    for (const uint32_t count : {1u, 16u, 17u, 32u, 33u, 130u, 400u}) {
      all.push_back(Make(pool, count, 0, 1));
    }
    for (const uint32_t full : {2u, 3u, 10u}) {
      const uint32_t count = full * s.page_tokens;
      all.push_back(Make(pool, count, count - s.page_tokens, s.page_tokens));
    }
    all.push_back(Make(pool, 40, 7, 5));
    std::fill_n(KeyAt(pool, all[6].tokens, s.kv_heads - 1, 20), s.head_dim, bf16{});
    const std::vector<float> got = Unrotated(pool, all, angles);
    PlainUnrotated(pool, all, angles);
    ExpectNear(got, pool.scores, 0, 1e-5f);
  }
}

TEST_P(GpuDifferenceTest, KeysThatCancelOrVanishScoreNothing) {
  RandomPool pool(random_, 10, 2, 64);
  pool.values = RoundNumbers(pool.values);
  Scored scored = Make(pool, 56, 0, 1);
  scored.positions.assign(56, 7);
  for (uint32_t slot = 16; slot < 56; ++slot) {
    for (uint32_t i = 0; i < 64; ++i) {
      // In head 0 each key and its opposite; in head 1 no key has a direction.
      const float other = KeyAt(pool, scored.tokens, 0, slot - 20 * (slot >= 36))[i].ToFloat();
      if (slot >= 36) KeyAt(pool, scored.tokens, 0, slot)[i] = bf16::Round(-other);
    }
  }
  for (uint32_t slot = 0; slot < 56; ++slot) {
    if (slot < 16) std::fill_n(KeyAt(pool, scored.tokens, 0, slot), 64, bf16{});
    std::fill_n(KeyAt(pool, scored.tokens, 1, slot), 64, bf16{});
  }
  const Angles angles(64, 20);
  for (const auto& got : {Resident(pool, {scored}), Unrotated(pool, {scored}, angles)}) {
    for (uint32_t slot = 0; slot < 56; ++slot) {
      for (uint32_t head = 0; head < 2; ++head) {
        const uint32_t page = scored.tokens.table[slot / 16];
        EXPECT_EQ(got[(page * 16 + slot % 16) * 2 + head], 0) << slot;
      }
    }
  }
}

// Alone and in a batch, with anything behind the tokens: the same bits.
TEST_P(GpuDifferenceTest, IsBatchInvariant) {
  const Angles angles(64, kPositions);
  RandomPool pool = Pool(kScoreShapes[0], 120);
  const std::vector<Scored> all = {Make(pool, 300, 0, 1), Make(pool, 5, 0, 1),
                                   Make(pool, 64, 48, 16), Make(pool, 133, 0, 1)};
  RandomPool alone = pool;
  RandomPool alone_unrotated = pool;
  for (const Scored& one : all) {
    alone.scores = Resident(alone, {one});
    alone_unrotated.scores = Unrotated(alone_unrotated, {one}, angles);
  }
  for (const Scored& one : all) cpu::SpoilRest(pool, one.tokens);
  EXPECT_EQ(Resident(pool, all), alone.scores);
  EXPECT_EQ(Unrotated(pool, all, angles), alone_unrotated.scores);
}

TEST_P(GpuDifferenceTest, NothingToScoreOrNobodyToReadIt) {
  RandomPool pool(random_, 4, 2, 64);
  PoolOnDevice device(type(), pool);
  EXPECT_TRUE(ScoreResident(nullptr, {}, device.pool()).ok());
  DevicePool other = device.pool();
  other.view.scores = nullptr;
  EXPECT_TRUE(ScoreUnrotated(nullptr, {nullptr, 3}, {}, other).ok());
  other = device.pool();
  other.view.geometry.head_dim = 258;
  EXPECT_EQ(ScoreResident(nullptr, {}, other).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(device.Scores(), pool.scores);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuDifferenceTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
