// GGUF files whose parts are swapped, repeated, recounted and given other types. Each one loads or
// is refused with words, and none takes memory without bound.
#include <sys/resource.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/source_reading.h"
#include "tests/testing/random_damage.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufField;
using ::folio::testing::GgufImage;
using ::folio::testing::GgufTensor;
using ::folio::testing::RandomDamage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;
using ::folio::testing::WriteFile;

constexpr size_t kArrayHeader = 12;  // the elements' type, 32 bits, and their number, 64 bits

// Numbers that fit somewhere, or are next to ones that do.
uint64_t Number(RandomDamage& random) {
  static const std::vector<uint64_t> numbers = {0,   1,   2,   3,    4,    5,        8,       15,
                                                16,  17,  31,  32,   33,   48,       64,      128,
                                                255, 256, 257, 1000, 4096, 1u << 16, 1u << 20};
  switch (random.Below(6)) {
    case 0:
      return uint64_t{1} << random.Below(64);
    case 1:
      return (uint64_t{1} << random.Below(64)) - 1;
    case 2:
      return random.Bits();
    default:
      return random.AnyOf(numbers);
  }
}

// Overwrites as many bytes at `at` as there are of a number.
void Overwrite(std::string& bytes, size_t at, size_t count, uint64_t number) {
  if (at >= bytes.size()) return;
  count = std::min(count, bytes.size() - at);
  std::memcpy(bytes.data() + at, &number, std::min(count, sizeof number));
}

uint64_t ReadNumber(const std::string& bytes, size_t at) {
  uint64_t number = 0;
  if (at + sizeof number <= bytes.size()) std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

class StructureDamage {
 public:
  explicit StructureDamage(RandomDamage& random) : random_(random) {}

  void Apply(GgufImage& image) {
    for (uint64_t edits = 1 + random_.Below(3); edits > 0; --edits) {
      const uint64_t kind = random_.Below(10);
      if (kind < 6 && !image.fields.empty()) {
        EditFields(image);
      } else if (kind < 9 && !image.tensors.empty()) {
        EditTensors(image);
      } else {
        EditCounts(image);
      }
    }
  }

 private:
  template <typename Part>
  Part& AnyOf(std::vector<Part>& parts) {
    return parts[random_.Below(parts.size())];
  }

  template <typename Part>
  void Repeat(std::vector<Part>& parts) {
    const Part again = AnyOf(parts);
    parts.insert(parts.begin() + random_.Below(parts.size() + 1), again);
  }

  template <typename Part>
  void Drop(std::vector<Part>& parts) {
    parts.erase(parts.begin() + random_.Below(parts.size()));
  }

  void EditFields(GgufImage& image) {
    GgufField& field = AnyOf(image.fields);
    GgufField& other = AnyOf(image.fields);
    switch (random_.Below(8)) {
      case 0:
        std::swap(field.key, other.key);
        break;
      case 1:
        std::swap(field.bytes, other.bytes);
        if (random_.OneIn(2)) std::swap(field.type, other.type);
        break;
      case 2:
        Repeat(image.fields);
        break;
      case 3:
        Drop(image.fields);
        break;
      case 4:
        field.type = static_cast<uint32_t>(random_.Below(14));
        break;
      case 5:
        field.bytes = random_.Damage(field.bytes, other.bytes);
        break;
      default:
        EditValue(field);
    }
  }

  // Another number in a number, a length or a count, or among the elements of an array.
  void EditValue(GgufField& field) {
    if (static_cast<GgufType>(field.type) != GgufType::kArray) {
      Overwrite(field.bytes, 0, 8, Number(random_));
      return;
    }
    const uint64_t count = ReadNumber(field.bytes, 4);
    switch (random_.Below(6)) {
      case 0:
        Overwrite(field.bytes, 0, 4, random_.Below(14));
        break;
      case 1:
        Overwrite(field.bytes, 4, 8, count - 1);
        break;
      case 2:
        Overwrite(field.bytes, 4, 8, random_.OneIn(2) ? count + 1 : count * 2);
        break;
      case 3:
        Overwrite(field.bytes, 4, 8, Number(random_));
        break;
      case 4:  // ten fewer or more, in the file too
        Overwrite(field.bytes, 4, 8, count + 10);
        field.bytes += std::string(80, '\0');
        break;
      default:
        if (field.bytes.size() <= kArrayHeader) break;
        Overwrite(field.bytes,
                  kArrayHeader + random_.Below(field.bytes.size() - kArrayHeader) / 4 * 4, 4,
                  Number(random_));
    }
  }

  void EditTensors(GgufImage& image) {
    GgufTensor& tensor = AnyOf(image.tensors);
    GgufTensor& other = AnyOf(image.tensors);
    switch (random_.Below(9)) {
      case 0:
        std::swap(tensor.name, other.name);
        break;
      case 1:
        std::swap(tensor.extents, other.extents);
        break;
      case 2:
        Repeat(image.tensors);
        break;
      case 3:
        Drop(image.tensors);
        break;
      case 4:
        tensor.type = static_cast<uint32_t>(random_.OneIn(4) ? Number(random_) : random_.Below(32));
        break;
      case 5:
        tensor.offset = random_.OneIn(2) ? Number(random_) : random_.Below(1000) * 32;
        break;
      case 6:
        if (!tensor.extents.empty()) AnyOf(tensor.extents) = Number(random_);
        break;
      case 7:
        tensor.extents.resize(random_.Below(6), 1);
        break;
      case 8:
        tensor.bytes.resize(tensor.bytes.size() / 2 + random_.Below(tensor.bytes.size() + 1));
        break;
    }
  }

  void EditCounts(GgufImage& image) {
    switch (random_.Below(4)) {
      case 0:
        image.field_count = random_.OneIn(2) ? image.fields.size() - 1 : Number(random_);
        break;
      case 1:
        image.tensor_count = random_.OneIn(2) ? image.tensors.size() - 1 : Number(random_);
        break;
      case 2:
        image.version = static_cast<uint32_t>(random_.Below(5));
        break;
      case 3:
        image.alignment = uint64_t{8} << random_.Below(6);
        if (random_.OneIn(2)) image.SetUint("general.alignment", image.alignment);
        break;
    }
  }

  RandomDamage& random_;
};

// While it lives, the process may take so much more address space. The shadow memory of a sanitizer
// leaves no room for a limit, and sanitizers end at absurd sizes by themselves.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t bytes) {
#ifndef __SANITIZE_ADDRESS__
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    EXPECT_EQ(getrlimit(RLIMIT_AS, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = pages * getpagesize() + bytes;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
#endif
  }
  ~MemoryLimit() {
#ifndef __SANITIZE_ADDRESS__
    EXPECT_EQ(setrlimit(RLIMIT_AS, &before_), 0);
#endif
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_ = {};
};

// Everything of a model that a worker reads before it makes an executor.
absl::Status LoadWithTokenizer(const std::string& path) {
  if (absl::Status status = Load(path); !status.ok()) {
    EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
    return status;
  }
  const auto source = OpenModel(path);
  const auto tokenizer = Tokenizer::Create((*source)->tokenizer(), (*source)->config().vocab);
  if (!tokenizer.ok()) return tokenizer.status();
  return (*tokenizer)->Encode("Why is the sea salty? <|im_end|>").status();
}

TEST(GgufStructure, LoadsOrIsRefusedWithWords) {
  RandomDamage random;
  SCOPED_TRACE(random.repeat());
  const ScratchDirectory scratch;
  const std::string path = scratch.File("damaged.gguf");
  TinyOptions options;
  options.layers = 1;
  options.hidden = 32;
  options.ffn = 32;
  options.heads = 2;
  options.kv_heads = 1;
  const GgufImage whole = TinyModel(options).Gguf(StorageType::kQ8_0);
  WriteFile(path, whole.Serialize());
  ASSERT_EQ(LoadWithTokenizer(path), absl::OkStatus());
  StructureDamage damage(random);
  std::map<absl::StatusCode, int> answers;
  const MemoryLimit limit(uint64_t{256} << 20);
  const int rounds = RandomDamage::Rounds(1500);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    GgufImage image = whole;
    damage.Apply(image);
    WriteFile(path, image.Serialize());
    const absl::Status status = LoadWithTokenizer(path);
    ++answers[status.code()];
    if (!status.ok()) {
      EXPECT_GT(status.message().size(), 10U) << status;
    }
  }
  for (const auto& [code, count] : answers) {
    std::cout << absl::StatusCodeToString(code) << " " << count << "\n";
  }
  for (const auto code : {absl::StatusCode::kOk, absl::StatusCode::kDataLoss,
                          absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented}) {
    EXPECT_GT(answers[code], rounds / 100) << absl::StatusCodeToString(code);
    answers.erase(code);
  }
  EXPECT_TRUE(answers.empty()) << "errors of another kind, such as "
                               << absl::StatusCodeToString(answers.begin()->first);
}

}  // namespace
}  // namespace folio::model
