// HfDamage is one way to damage a tiny Hugging Face directory, with the check that it is refused.
#ifndef FOLIO_TESTS_MODEL_SOURCE_HF_DAMAGE_H_
#define FOLIO_TESTS_MODEL_SOURCE_HF_DAMAGE_H_

#include <functional>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/model/source_reading.h"
#include "tests/testing/hf_image.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {

using Files = std::map<std::string, std::string>;
using EditImage = std::function<void(::folio::testing::HfImage&)>;
using EditFiles = std::function<void(Files&)>;

struct HfDamage {
  const char* name;
  EditImage image;
  EditFiles files;
  absl::StatusCode code;
  const char* words;
  ::folio::testing::TinyOptions model = {};
};

// Lists in lists, as a text, because nlohmann's dump would use up the stack.
inline std::string Nested(size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

// Gives `key` that value in the outer object of a file, in place of any that it has.
inline EditFiles SetJson(const char* file, const char* key, const std::string& value) {
  return [=](Files& files) {
    nlohmann::json object = nlohmann::json::parse(files[file]);
    object.erase(key);
    const std::string rest = object.dump();
    files[file] =
        "{\"" + std::string(key) + "\": " + value + (rest == "{}" ? "" : ",") + rest.substr(1);
  };
}

inline HfDamage InImage(const char* name, EditImage edit, absl::StatusCode code,
                        const char* words) {
  return {name, std::move(edit), nullptr, code, words, {}};
}

// Gives a field of config.json that value.
inline HfDamage Config(const char* name, const char* key, nlohmann::json value,
                       absl::StatusCode code, const char* words) {
  return InImage(
      name, [=](::folio::testing::HfImage& image) { image.config[key] = value; }, code, words);
}

inline HfDamage InFiles(const char* name, EditFiles edit, absl::StatusCode code,
                        const char* words) {
  return {name, nullptr, std::move(edit), code, words, {}};
}

inline void CheckRefused(const HfDamage& damage) {
  const ::folio::testing::ScratchDirectory scratch;
  ::folio::testing::HfImage image =
      ::folio::testing::TinyModel(damage.model).Hf(StorageType::kBF16);
  {
    const ::folio::testing::ScratchDirectory whole;
    image.Write(whole.path());
    ASSERT_TRUE(Load(whole.path()).ok()) << Load(whole.path());
  }
  if (damage.image) damage.image(image);
  Files files = image.Files();
  if (damage.files) damage.files(files);
  for (const auto& [name, contents] : files)
    ::folio::testing::WriteFile(scratch.File(name), contents);
  const absl::Status status = Load(scratch.path());
  EXPECT_EQ(status.code(), damage.code) << status;
  EXPECT_THAT(status.message(), ::testing::HasSubstr(scratch.path()));
  EXPECT_THAT(status.message(), ::testing::HasSubstr(damage.words));
}

}  // namespace folio::model

#endif  // FOLIO_TESTS_MODEL_SOURCE_HF_DAMAGE_H_
