// Mistral from a Hugging Face directory: what differs from Llama is read, and a window is refused.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::testing::HasSubstr;

const TinyModel& Tiny() {
  static const TinyModel model({.seed = 12, .family = "mistral"});
  return model;
}

TEST(Mistral, IsReadFromADirectory) {
  const ScratchDirectory scratch;
  Tiny().WriteHf(scratch.path());
  const auto source = OpenModel(scratch.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->config().architecture, "mistral");
  EXPECT_EQ((*source)->config().features, Features{});
}

// Up to its length a window is all that came before.
TEST(Mistral, AWindowLimitsTheContext) {
  const ScratchDirectory scratch;
  HfImage image = Tiny().Hf(StorageType::kBF16);
  for (const auto& [window, context] : {std::pair(512, 512u), {4096, 2048u}}) {
    image.config["sliding_window"] = window;
    image.Write(scratch.path());
    const auto source = OpenModel(scratch.path());
    ASSERT_TRUE(source.ok()) << source.status();
    EXPECT_EQ((*source)->config().context, context);
  }
  image.config["sliding_window"] = "long";
  image.Write(scratch.path());
  EXPECT_THAT(OpenModel(scratch.path()).status().message(), HasSubstr("sliding_window"));
}

// The weights are those that Llama computes with.
TEST(Mistral, ItsGgufFilesAreLlamas) {
  const ScratchDirectory scratch;
  Tiny().WriteGguf(scratch.File("tiny.gguf"));
  Tiny().WriteHf(scratch.path());
  const auto gguf = OpenModel(scratch.File("tiny.gguf"));
  const auto hf = OpenModel(scratch.path());
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(hf.ok()) << hf.status();
  EXPECT_EQ((*gguf)->config().architecture, "llama");
  const auto ours = (*hf)->ReadMatrix(Role::kQuery, 1).value();
  const auto llamas = (*gguf)->ReadMatrix(Role::kQuery, 1).value();
  EXPECT_TRUE(std::ranges::equal(ours, llamas, {}, &kernels::bf16::bits, &kernels::bf16::bits));
}

}  // namespace
}  // namespace folio::model
