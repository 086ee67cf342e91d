// Matrices as they are stored, quantised: the values that dequantising gives, in the order of
// kernels, whole and cut over ranks.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/quantized_tensor.h"
#include "services/model/tp/shard.h"

namespace folio::model {
namespace {

using ::testing::HasSubstr;

constexpr StorageType kWithKernels[] = {StorageType::kQ4_0, StorageType::kQ4_1, StorageType::kQ5_0,
                                        StorageType::kQ5_1, StorageType::kQ8_0, StorageType::kIq4Nl,
                                        StorageType::kQ4K,  StorageType::kQ5K,  StorageType::kQ6K,
                                        StorageType::kIq4Xs};

// Where blocks have half-precision numbers.
std::vector<size_t> Halves(StorageType type) {
  switch (type) {
    case StorageType::kQ6K:
      return {208};
    case StorageType::kQ4_1:
    case StorageType::kQ5_1:
    case StorageType::kQ4K:
    case StorageType::kQ5K:
      return {0, 2};
    default:
      return {0};
  }
}

// Any bytes, but for exponents of half-precision numbers, which are made those of finite ones.
std::string RandomBlocks(StorageType type, size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(count * BlockBytes(type), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (size_t at = 0; at < bytes.size(); at += BlockBytes(type)) {
    for (const size_t half : Halves(type)) bytes[at + half + 1] &= static_cast<char>(0xbf);
  }
  return bytes;
}

StoredTensor Tensor(StorageType type, const std::string& bytes, uint64_t rows, uint64_t cols) {
  return {.file = "a.gguf",
          .name = "blk.0.attn_q.weight",
          .type = type,
          .type_name = "of the test",
          .shape = {rows, cols},
          .bytes = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}};
}

std::vector<float> RowOf(const kernels::QuantizedMatrix& matrix, uint32_t row) {
  kernels::QuantizedRow read(matrix.format(), matrix.k());
  matrix.Read(row, read);
  std::vector<float> values(matrix.k());
  kernels::Dequantize(matrix.format(), read, absl::MakeSpan(values));
  return values;
}

TEST(ReadQuantized, ValuesAreThoseOfDequantizing) {
  constexpr uint64_t kRows = 8;
  constexpr uint64_t kCols = 512;
  for (const StorageType type : kWithKernels) {
    const std::string bytes = RandomBlocks(type, kRows * kCols / BlockValues(type), 5);
    for (const RowOrder& order : {RowOrder{}, RowOrder{4, 4, true}, RowOrder{8, 4, false}}) {
      const auto matrix = ReadQuantized(Tensor(type, bytes, kRows, kCols), order);
      ASSERT_TRUE(matrix.ok()) << matrix.status();
      ASSERT_NE(*matrix, nullptr);
      EXPECT_EQ((*matrix)->n(), kRows);
      EXPECT_EQ((*matrix)->k(), kCols);
      std::vector<float> want(kCols);
      for (uint32_t row = 0; row < kRows; ++row) {
        const size_t row_bytes = bytes.size() / kRows;
        DequantizeRow(type,
                      reinterpret_cast<const std::byte*>(&bytes[order.Stored(row) * row_bytes]),
                      kCols, want.data());
        // A zero may have either sign.
        EXPECT_EQ(RowOf(**matrix, row), want) << static_cast<int>(type) << " row " << row;
      }
    }
  }
}

TEST(ReadQuantized, NamesAScaleThatIsNotFinite) {
  for (const StorageType type : kWithKernels) {
    for (const size_t half : Halves(type)) {
      std::string bytes = RandomBlocks(type, 2 * 256 / BlockValues(type), 5);
      bytes[bytes.size() - BlockBytes(type) + half + 1] = 0x7c;
      const auto matrix = ReadQuantized(Tensor(type, bytes, 2, 256), {});
      EXPECT_EQ(matrix.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(matrix.status().message(), HasSubstr("blk.0.attn_q.weight"));
      EXPECT_THAT(matrix.status().message(), HasSubstr("row 1"));
    }
  }
}

TEST(ReadQuantized, LeavesFloatsAloneAndNamesTypesWithoutKernels) {
  const std::string floats(256 * 2, '\0');
  const auto none = ReadQuantized(Tensor(StorageType::kF16, floats, 1, 256), {});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, nullptr);
  for (const StorageType type : {StorageType::kQ2K, StorageType::kQ3K}) {
    const std::string bytes(BlockBytes(type), '\0');
    const auto refused = ReadQuantized(Tensor(type, bytes, 1, 256), {});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(refused.status().message(), HasSubstr("of the test"));
  }
}

// A model whose matrices are all of one type. Roles are as long as their rows need.
class OneType final : public ModelSource {
 public:
  OneType(const ModelConfig& config, StorageType type) : config_(config), type_(type) {
    bytes_ = RandomBlocks(type, size_t{1024} * 1024 / BlockValues(type), 9);
  }
  const ModelConfig& config() const override { return config_; }
  const TokenizerSpec& tokenizer() const override { return tokenizer_; }
  absl::StatusOr<std::vector<kernels::bf16>> ReadMatrix(Role role, uint32_t) const override {
    return ReadBf16(Stored(role), {});
  }
  absl::StatusOr<std::vector<float>> ReadVector(Role, uint32_t) const override {
    return absl::UnimplementedError("no vectors");
  }
  absl::StatusOr<std::unique_ptr<kernels::QuantizedMatrix>> ReadQuantized(Role role,
                                                                          uint32_t) const override {
    return model::ReadQuantized(Stored(role), {});
  }
  std::string fingerprint() const override { return "one type"; }

 private:
  StoredTensor Stored(Role role) const {
    const uint64_t rows = SizeOf(InfoOf(role).rows, config_);
    const uint64_t cols = SizeOf(InfoOf(role).cols, config_);
    StoredTensor tensor = Tensor(type_, bytes_, rows, cols);
    tensor.bytes = tensor.bytes.subspan(0, rows * cols / BlockValues(type_) * BlockBytes(type_));
    return tensor;
  }

  ModelConfig config_;
  StorageType type_;
  TokenizerSpec tokenizer_;
  std::string bytes_;
};

TEST(ShardSource, CutsQuantizedMatricesAsOthers) {
  ModelConfig config;
  config.num_layers = 1;
  config.hidden = 256;
  config.ffn = 1024;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_dim = 64;
  config.vocab = 512;
  for (const StorageType type : {StorageType::kQ5_0, StorageType::kQ4K, StorageType::kQ6K}) {
    const OneType whole(config, type);
    for (const uint32_t ranks : {1u, 2u, 4u}) {
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const ShardSource part(whole, *ShardModel(config, Rank(rank), ranks));
        for (const Role role : {Role::kEmbedding, Role::kOutput, Role::kQuery, Role::kKey,
                                Role::kAttentionOut, Role::kGate, Role::kDown}) {
          const uint32_t cols = SizeOf(InfoOf(role).cols, part.config());
          const auto matrix = part.ReadQuantized(role, 0);
          if (cols % BlockValues(type) != 0) {  // heads of four ranks: 128 columns
            EXPECT_EQ(matrix.status().code(), absl::StatusCode::kUnimplemented);
            EXPECT_THAT(matrix.status().message(), HasSubstr("within a block"));
            continue;
          }
          ASSERT_TRUE(matrix.ok()) << matrix.status();
          const std::vector<kernels::bf16> want = *part.ReadMatrix(role, 0);
          ASSERT_EQ(want.size(), size_t{(*matrix)->n()} * (*matrix)->k());
          for (uint32_t row = 0; row < (*matrix)->n(); ++row) {
            const std::vector<float> got = RowOf(**matrix, row);
            for (uint32_t i = 0; i < cols; ++i) {
              ASSERT_EQ(kernels::bf16::Round(got[i]).ToFloat(), want[row * cols + i].ToFloat());
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace folio::model
