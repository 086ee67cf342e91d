// Cut and flipped files: whatever the bytes, the answer is a status or a model, never a crash.
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "tests/model/source_reading.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::GgufTensor;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::WriteFile;

std::string TinyGguf() { return TinyModel().Gguf(StorageType::kQ4_1).Serialize(); }

TEST(Truncation, OfGgufIsAlwaysNoticed) {
  const ScratchDirectory scratch;
  const std::string path = scratch.File("cut.gguf");
  const std::string whole = TinyGguf();
  for (size_t size = 0; size < whole.size(); size += 64) {
    WriteFile(path, whole.substr(0, size));
    const absl::Status status = Load(path);
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << ": " << status;
  }
  WriteFile(path, whole.substr(0, whole.size() - 1));
  EXPECT_EQ(Load(path).code(), absl::StatusCode::kDataLoss);
}

TEST(Truncation, OfSafetensorsIsAlwaysNoticed) {
  const ScratchDirectory scratch;
  TinyModel().WriteHf(scratch.path());
  const std::string path = scratch.File("model.safetensors");
  const std::string whole = ::folio::testing::ReadFile(path);
  for (size_t size = 0; size < whole.size(); size += 256) {
    WriteFile(path, whole.substr(0, size));
    const absl::Status status = Load(scratch.path());
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << ": " << status;
  }
}

// Flips bits of a few bytes among the first `reach`, where the structure is.
size_t Mutate(const std::string& open, const std::string& file, const std::string& whole,
              size_t reach, int rounds) {
  const auto seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  size_t refused = 0;
  for (int round = 0; round < rounds; ++round) {
    std::string damaged = whole;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      damaged[random() % reach] ^= static_cast<char>(1u << (random() % 8));
    }
    WriteFile(file, damaged);
    if (!Load(open).ok()) ++refused;
  }
  return refused;
}

TEST(Mutation, OfGgufNeverCrashes) {
  const ScratchDirectory scratch;
  const std::string path = scratch.File("flipped.gguf");
  const std::string whole = TinyGguf();
  GgufImage empty = TinyModel().Gguf(StorageType::kQ4_1);
  for (GgufTensor& tensor : empty.tensors) tensor.bytes.clear();
  EXPECT_GT(Mutate(path, path, whole, empty.Serialize().size(), 1500), 0u);
}

TEST(Mutation, OfSafetensorsNeverCrashes) {
  const ScratchDirectory scratch;
  TinyModel().WriteHf(scratch.path());
  const std::string path = scratch.File("model.safetensors");
  const std::string whole = ::folio::testing::ReadFile(path);
  uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof header);
  EXPECT_GT(Mutate(scratch.path(), path, whole, sizeof header + header, 500), 0u);
}

TEST(Mutation, OfJsonNeverCrashes) {
  for (const char* name :
       {"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    const ScratchDirectory scratch;
    TinyModel().WriteHf(scratch.path());
    const std::string path = scratch.File(name);
    const std::string whole = ::folio::testing::ReadFile(path);
    EXPECT_GT(Mutate(scratch.path(), path, whole, whole.size(), 200), 0u);
  }
}

}  // namespace
}  // namespace folio::model
