// What each rank has of a model: nothing is missing, nothing is there twice but what must be.
#include "services/model/tp/shard.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {
namespace {

using kernels::bf16;
using ::testing::HasSubstr;

ModelConfig Config(uint32_t heads, uint32_t kv_heads, uint32_t ffn = 52, uint32_t vocab = 101) {
  ModelConfig config = TinyConfig();
  config.heads = heads;
  config.kv_heads = kv_heads;
  config.ffn = ffn;
  config.vocab = vocab;
  return config;
}

// Ranks' extents follow each other and cover `total`.
template <typename Field>
void ExpectCover(const std::vector<Shard>& shards, Field field, uint32_t total) {
  uint32_t end = 0;
  for (const Shard& shard : shards) {
    const Range part = field(shard);
    EXPECT_EQ(part.first, end);
    EXPECT_GT(part.count, 0u);
    end = part.end();
  }
  EXPECT_EQ(end, total);
}

TEST(ShardModel, EverythingIsOnSomeRank) {
  for (const auto& [heads, kv_heads] :
       {std::pair{9u, 3u}, {6u, 2u}, {8u, 8u}, {32u, 8u}, {24u, 8u}, {7u, 1u}, {15u, 5u}}) {
    for (const uint32_t ranks : {1u, 2u, 3u, 4u, 5u}) {
      SCOPED_TRACE(absl::StrCat(heads, " heads, ", kv_heads, " KV heads, ", ranks, " ranks"));
      const ModelConfig config = Config(heads, kv_heads, 1536, 49152);
      const auto shards = ShardForAll(config, ranks);
      ASSERT_TRUE(shards.ok()) << shards.status();
      ExpectCover(
          *shards, [](const Shard& s) { return s.heads; }, heads);
      ExpectCover(
          *shards, [](const Shard& s) { return s.ffn; }, 1536);
      ExpectCover(
          *shards, [](const Shard& s) { return s.outputs; }, 49152);
      // Each rank has the KV heads that its query heads read, and each KV head has one writer.
      const uint32_t group = heads / kv_heads;
      std::vector<uint32_t> writers(kv_heads);
      for (const Shard& shard : *shards) {
        EXPECT_EQ(shard.kv_heads.first, shard.heads.first / group);
        EXPECT_EQ(shard.kv_heads.end(), (shard.heads.end() - 1) / group + 1);
        EXPECT_EQ(shard.heads.count % shard.kv_heads.count, 0u);
        EXPECT_EQ(shard.splits_groups, ranks > kv_heads);
        if (!shard.writes_scores) continue;
        for (uint32_t h = shard.kv_heads.first; h < shard.kv_heads.end(); ++h) ++writers[h];
      }
      for (const uint32_t count : writers) EXPECT_EQ(count, 1u);
    }
  }
}

TEST(ShardModel, TheReferenceModelOverFourRanks) {
  const auto shards = ShardForAll(Config(9, 3, 1536, 49152), 4);
  ASSERT_TRUE(shards.ok());
  const auto expect = [&](uint32_t rank, Range heads, Range kv_heads, bool writes) {
    EXPECT_EQ((*shards)[rank].heads, heads);
    EXPECT_EQ((*shards)[rank].kv_heads, kv_heads);
    EXPECT_EQ((*shards)[rank].writes_scores, writes);
    EXPECT_EQ((*shards)[rank].ffn, (Range{rank * 384, 384}));
  };
  expect(0, {0, 3}, {0, 1}, true);
  expect(1, {3, 3}, {1, 1}, true);
  expect(2, {6, 1}, {2, 1}, true);
  expect(3, {7, 2}, {2, 1}, false);
}

TEST(ShardModel, OneRankHasAllOfIt) {
  const ModelConfig config = TinyConfig();
  const auto shard = ShardModel(config, Rank(0), 1);
  ASSERT_TRUE(shard.ok());
  const RandomModel model(config, 3);
  const ShardSource source(model, *shard);
  EXPECT_EQ(source.config().outputs(), config.vocab);
  EXPECT_EQ(source.config().heads, config.heads);
  EXPECT_EQ(source.ReadMatrix(Role::kDown, 1)->size(), size_t{config.hidden} * config.ffn);
}

TEST(ShardModel, NamesWhatIsTooFew) {
  const auto refusal = [](const ModelConfig& config, uint32_t ranks) {
    const auto cut = ShardModel(config, Rank(0), ranks);
    EXPECT_TRUE(absl::IsInvalidArgument(cut.status())) << cut.status();
    return std::string(cut.status().message());
  };
  EXPECT_THAT(refusal(Config(4, 2), 5), HasSubstr("number of heads: 4 cannot be cut over 5 ranks"));
  EXPECT_THAT(refusal(Config(9, 3), 12), HasSubstr("number of heads: 9"));
  EXPECT_THAT(refusal(Config(8, 8, 3), 4), HasSubstr("feed-forward size: 3"));
  EXPECT_THAT(refusal(Config(8, 8, 52, 3), 4), HasSubstr("vocabulary size: 3"));
  EXPECT_THAT(refusal(Config(8, 8), 0), HasSubstr("rank 0 of 0"));
  EXPECT_FALSE(ShardModel(Config(8, 8), Rank(2), 2).ok());
  EXPECT_TRUE(ShardModel(Config(9, 3), Rank(0), 9).ok());
}

// [rows][cols] in double.
using Numbers = std::vector<double>;

Numbers Times(const std::vector<bf16>& weight, const Numbers& x) {
  Numbers out(weight.size() / x.size());
  for (size_t r = 0; r < out.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) out[r] += weight[r * x.size() + c].ToFloat() * x[c];
  }
  return out;
}

// gate and up feed down: what the ranks' parts give is added up to what the whole gives.
TEST(ShardSource, PartialProductsSumToTheWhole) {
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    const RandomModel model(TinyConfig(), 5);
    Numbers x(model.config().hidden);
    std::iota(x.begin(), x.end(), -7.0);
    const auto pass = [&x](const ModelSource& source, Role in, Role out) {
      return Times(*source.ReadMatrix(out, 1), Times(*source.ReadMatrix(in, 1), x));
    };
    for (const auto& [in, out] :
         {std::pair{Role::kUp, Role::kDown}, {Role::kQuery, Role::kAttentionOut}}) {
      const Numbers whole = pass(model, in, out);
      Numbers sum(whole.size());
      const std::vector<Shard> shards = ShardForAll(model.config(), ranks).value();
      for (const Shard& shard : shards) {
        const Numbers part = pass(ShardSource(model, shard), in, out);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole[i], 1e-9);
    }
  }
}

// Rows of a rank are the whole's rows: heads with what they read, and outputs also where they are
// the embedding's.
TEST(ShardSource, RowsAreThoseOfTheWhole) {
  ModelConfig config = TinyConfig();
  config.tied_embeddings = true;
  const RandomModel model(config, 6);
  const std::vector<Shard> shards = ShardForAll(config, 3).value();
  for (const Shard& shard : shards) {
    const ShardSource source(model, shard);
    const auto expect_rows = [&](Role role, Range heads) {
      const auto whole = *model.ReadMatrix(role, 0);
      const auto part = *source.ReadMatrix(role, 0);
      ASSERT_EQ(part.size(), size_t{heads.count} * config.hidden);
      for (size_t i = 0; i < part.size(); ++i) {
        ASSERT_EQ(part[i].bits, whole[size_t{heads.first} * config.hidden + i].bits);
      }
    };
    const uint32_t dim = config.head_dim;
    expect_rows(Role::kKey, {shard.kv_heads.first * dim, shard.kv_heads.count * dim});
    expect_rows(Role::kValue, {shard.kv_heads.first * dim, shard.kv_heads.count * dim});
    expect_rows(Role::kOutput, shard.outputs);
    expect_rows(Role::kEmbedding, {0, config.vocab});
    EXPECT_FALSE(source.config().tied_embeddings);
    EXPECT_EQ(source.config().outputs(), shard.outputs.count);
    EXPECT_EQ(source.ReadVector(Role::kFfnNorm, 1)->size(), config.hidden);
    EXPECT_EQ(source.fingerprint(), model.fingerprint());
  }
}

// A bias is cut with the heads that it is added to, also where ranks share a KV head.
TEST(ShardSource, BiasesAreThoseOfTheHeads) {
  const ModelConfig config = OfFamily("qwen2");
  const RandomModel model(config, 8);
  for (const uint32_t ranks : {1u, 2u, 3u}) {
    const std::vector<Shard> shards = ShardForAll(config, ranks).value();
    for (const Shard& shard : shards) {
      const ShardSource source(model, shard);
      EXPECT_TRUE(source.config().features.has(Feature::kQkvBias));
      for (const auto& [role, heads] : {std::pair{Role::kQueryBias, shard.heads},
                                        {Role::kKeyBias, shard.kv_heads},
                                        {Role::kValueBias, shard.kv_heads}}) {
        const std::vector<float> whole = *model.ReadVector(role, 1);
        const std::vector<float> part = *source.ReadVector(role, 1);
        const auto first = whole.begin() + static_cast<ptrdiff_t>(heads.first * config.head_dim);
        const auto size = static_cast<ptrdiff_t>(heads.count * config.head_dim);
        EXPECT_EQ(part, std::vector<float>(first, first + size)) << InfoOf(role).name;
      }
    }
  }
}

TEST(ShardSource, RefusesATensorOfTheWrongSize) {
  RandomModel model(TinyConfig(), 7);
  model.SetMatrix(Role::kDown, 1, std::vector<bf16>(10));
  const ShardSource source(model, *ShardModel(model.config(), Rank(1), 2));
  EXPECT_TRUE(absl::IsInvalidArgument(source.ReadMatrix(Role::kDown, 1).status()));
  EXPECT_TRUE(source.ReadMatrix(Role::kDown, 0).ok());
}

}  // namespace
}  // namespace folio::model::testing
