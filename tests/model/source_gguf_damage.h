// GgufDamage is one way to damage a tiny GGUF file, with the check that it is refused.
#ifndef FOLIO_TESTS_MODEL_SOURCE_GGUF_DAMAGE_H_
#define FOLIO_TESTS_MODEL_SOURCE_GGUF_DAMAGE_H_

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/source_reading.h"
#include "tests/testing/gguf_image.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {

using GgufEdit = std::function<void(::folio::testing::GgufImage&)>;

struct GgufDamage {
  const char* name;
  GgufEdit edit;
  absl::StatusCode code;
  const char* words;
  StorageType type = StorageType::kF32;
  ::folio::testing::TinyOptions model = {};
};

inline GgufEdit Uint(const char* key, uint32_t value) {
  return [=](::folio::testing::GgufImage& image) { image.SetUint(key, value); };
}

inline GgufEdit String(const char* key, const char* value) {
  return [=](::folio::testing::GgufImage& image) { image.SetString(key, value); };
}

// Changes the tensor of that name.
inline GgufEdit Tensor(const char* name, std::function<void(::folio::testing::GgufTensor&)> edit) {
  return [=](::folio::testing::GgufImage& image) { edit(image.Tensor(name)); };
}

inline void CheckRefused(const GgufDamage& damage) {
  const ::folio::testing::ScratchDirectory scratch;
  const std::string path = scratch.File("tiny.gguf");
  ::folio::testing::GgufImage image = ::folio::testing::TinyModel(damage.model).Gguf(damage.type);
  ::folio::testing::WriteFile(path, image.Serialize());
  ASSERT_TRUE(Load(path).ok()) << Load(path);
  damage.edit(image);
  ::folio::testing::WriteFile(path, image.Serialize());
  const absl::Status status = Load(path);
  EXPECT_EQ(status.code(), damage.code) << status;
  EXPECT_THAT(status.message(), ::testing::HasSubstr(path));
  EXPECT_THAT(status.message(), ::testing::HasSubstr(damage.words));
}

}  // namespace folio::model

#endif  // FOLIO_TESTS_MODEL_SOURCE_GGUF_DAMAGE_H_
