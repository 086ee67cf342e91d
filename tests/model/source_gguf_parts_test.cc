// GGUF models in several files, as llama.cpp's gguf-split writes them.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/model/source_reading.h"
#include "tests/testing/gguf_image.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::GgufImage;
using ::folio::testing::GgufTensor;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::WriteFile;
using ::testing::HasSubstr;

using enum absl::StatusCode;

constexpr size_t kParts = 3;

using Parts = std::vector<GgufImage>;

// All metadata in the first part, and the tensors dealt out in order. `empty_first` leaves the
// first without tensors, as gguf-split does on demand.
Parts Split(const GgufImage& whole, bool empty_first = false) {
  Parts parts(kParts);
  parts[0].fields = whole.fields;
  const size_t with_tensors = empty_first ? kParts - 1 : kParts;
  const size_t each = (whole.tensors.size() + with_tensors - 1) / with_tensors;
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    parts[i / each + (empty_first ? 1 : 0)].tensors.push_back(whole.tensors[i]);
  }
  for (size_t number = 0; number < kParts; ++number) {
    parts[number].SetUint("split.no", static_cast<uint32_t>(number));
    parts[number].SetUint("split.count", kParts);
    parts[number].SetUint("split.tensors.count", static_cast<uint32_t>(whole.tensors.size()));
  }
  return parts;
}

std::string Name(size_t number) { return absl::StrFormat("tiny-%05d-of-00003.gguf", number); }

void Write(const Parts& parts, const ScratchDirectory& folder) {
  for (size_t i = 0; i < parts.size(); ++i) {
    WriteFile(folder.File(Name(i + 1)), parts[i].Serialize());
  }
}

TEST(GgufParts, AnyPartIsTheWholeModel) {
  const GgufImage whole = TinyModel().Gguf(StorageType::kQ8_0);
  const auto expected = OpenGguf(whole);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<std::vector<kernels::bf16>> want_matrices;
  std::vector<std::vector<float>> want_vectors;
  ASSERT_TRUE(ReadAll(**expected, want_matrices, want_vectors).ok());
  for (const bool empty_first : {false, true}) {
    const ScratchDirectory folder;
    Write(Split(whole, empty_first), folder);
    for (size_t number = 1; number <= kParts; ++number) {
      const auto model = OpenModel(folder.File(Name(number)));
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ((*model)->fingerprint(), (*expected)->fingerprint());
      std::vector<std::vector<kernels::bf16>> matrices;
      std::vector<std::vector<float>> vectors;
      ASSERT_TRUE(ReadAll(**model, matrices, vectors).ok());
      EXPECT_EQ(vectors, want_vectors);
      ASSERT_EQ(matrices.size(), want_matrices.size());
      for (size_t i = 0; i < matrices.size(); ++i) {
        ASSERT_EQ(matrices[i].size(), want_matrices[i].size());
        EXPECT_TRUE(std::equal(matrices[i].begin(), matrices[i].end(), want_matrices[i].begin(),
                               [](auto a, auto b) { return a.bits == b.bits; }));
      }
    }
  }
}

struct PartsDamage {
  const char* name;
  std::function<void(Parts&)> edit;
  size_t opened;  // by this part, from 1
  absl::StatusCode code;
  const char* words;
};

std::vector<PartsDamage> Damages() {
  return {
      {"SameTensorTwice", [](Parts& p) { p[2].tensors.push_back(p[0].tensors[0]); }, 2, kDataLoss,
       "tiny-00003-of-00003.gguf: tensor token_embd.weight: is in another part too, "},
      {"TensorLeftOut", [](Parts& p) { p[1].tensors.pop_back(); }, 1, kDataLoss,
       "split.tensors.count: 20, but the parts have 19 tensors"},
      {"OtherNumber", [](Parts& p) { p[1].SetUint("split.no", 2); }, 1, kDataLoss,
       "tiny-00002-of-00003.gguf: split.no: 2, but the other parts and the name say 1"},
      {"OtherCount", [](Parts& p) { p[1].SetUint("split.count", 4); }, 3, kDataLoss,
       "tiny-00002-of-00003.gguf: split.count: 4, but the other parts and the name say 3"},
      {"PartOfNoModel", [](Parts& p) { p[1].Erase("split.count"); }, 1, kDataLoss,
       "tiny-00002-of-00003.gguf: split.count: 1, but"},
      {"OtherTotal", [](Parts& p) { p[2].SetUint("split.tensors.count", 7); }, 1, kDataLoss,
       "tiny-00003-of-00003.gguf: split.tensors.count: 7, but"},
      {"NumberBeyondCount", [](Parts& p) { p[0].SetUint("split.no", 3); }, 1, kDataLoss,
       "split.no: 3, but split.count is 3"},
      {"NoNumber", [](Parts& p) { p[0].Erase("split.no"); }, 1, kInvalidArgument,
       "split.no: missing"},
      {"NoTotal", [](Parts& p) { p[0].Erase("split.tensors.count"); }, 1, kInvalidArgument,
       "split.tensors.count: missing"},
      {"NumberAsText", [](Parts& p) { p[0].SetString("split.no", "0"); }, 1, kInvalidArgument,
       "split.no: not"},
      {"AbsurdCount", [](Parts& p) { p[0].SetUint("split.count", 4'000'000'000); }, 1, kDataLoss,
       "but split.count is 4000000000"},
      {"NameOfOtherCount", [](Parts& p) { p[0].SetUint("split.count", 2); }, 1, kInvalidArgument,
       "split.count: the model has 2 parts, and the name of this one must end with "
       "-00001-of-00002.gguf"},
      {"DamagedPart", [](Parts& p) { p[1].magic = 1; }, 1, kDataLoss,
       "tiny-00002-of-00003.gguf: not a GGUF file"},
  };
}

class GgufPartsDamage : public ::testing::TestWithParam<PartsDamage> {};

TEST_P(GgufPartsDamage, IsRefusedByName) {
  const PartsDamage& damage = GetParam();
  Parts parts = Split(TinyModel().Gguf(StorageType::kF32));
  damage.edit(parts);
  const ScratchDirectory folder;
  Write(parts, folder);
  const absl::Status status = OpenModel(folder.File(Name(damage.opened))).status();
  EXPECT_EQ(status.code(), damage.code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(damage.words));
}

INSTANTIATE_TEST_SUITE_P(Damages, GgufPartsDamage, ::testing::ValuesIn(Damages()),
                         [](const ::testing::TestParamInfo<PartsDamage>& info) {
                           return info.param.name;
                         });

TEST(GgufParts, APartThatIsNotThereIsNamed) {
  Parts parts = Split(TinyModel().Gguf(StorageType::kF32));
  parts.pop_back();
  const ScratchDirectory folder;
  Write(parts, folder);
  const absl::Status status = OpenModel(folder.File(Name(1))).status();
  EXPECT_EQ(status.code(), kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("tiny-00003-of-00003.gguf: part 3 of 3 of the model is not there"));
}

TEST(GgufParts, NamesMustTellWhereTheOthersAre) {
  const Parts parts = Split(TinyModel().Gguf(StorageType::kF32));
  for (const char* name :
       {"tiny.gguf", "tiny-1-of-3.gguf", "tiny-00002-of-00003.gguf", "tiny00001-of-00003.gguf",
        "tiny-00001-of-00003.bin", "tiny-00001of-00003.gguf"}) {
    const ScratchDirectory folder;
    WriteFile(folder.File(name), parts[0].Serialize());
    const absl::Status status = OpenModel(folder.File(name)).status();
    EXPECT_EQ(status.code(), kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("must end with -00001-of-00003.gguf"));
  }
}

}  // namespace
}  // namespace folio::model
