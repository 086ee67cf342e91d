// SmolLM3 in both containers: which layers do not rotate is read, and refused where it is damaged.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/source_gguf_damage.h"
#include "tests/model/source_hf_damage.h"
#include "tests/model/source_reading.h"
#include "tests/testing/tiny_model.h"

namespace folio::model {
namespace {

using ::folio::testing::HfImage;
using ::folio::testing::ScratchDirectory;
using ::folio::testing::TinyModel;
using ::folio::testing::TinyOptions;
using nlohmann::json;

using enum absl::StatusCode;

const TinyOptions kSmolLm3Options = {
    .seed = 13, .layers = 5, .rope_theta = 5000000, .family = "smollm3"};

TEST(SmolLm3, IsReadFromBothContainers) {
  const TinyModel model(kSmolLm3Options);
  ForBothContainers(model, [&model](const ModelSource& source) {
    const ModelConfig& config = source.config();
    EXPECT_EQ(config.architecture, "smollm3");
    EXPECT_EQ(config.rope_theta, 5000000.0f);
    ASSERT_TRUE(config.others.has_value());
    EXPECT_EQ(config.others->layers, (std::vector<bool>{false, false, false, true, false}));
    EXPECT_EQ(config.others->rope_theta, 0);
    EXPECT_EQ(config.window(), 0u);
    EXPECT_EQ(LargestError(source, model), 0);
  });
}

TEST(SmolLm3, AListNamesLayers) {
  HfImage image = TinyModel(kSmolLm3Options).Hf(StorageType::kBF16);
  image.config["no_rope_layers"] = {1, 0, 1, 1, 0};
  const ScratchDirectory scratch;
  image.Write(scratch.path());
  const auto source = OpenModel(scratch.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->config().others->layers,
            (std::vector<bool>{false, true, false, false, true}));
}

std::vector<HfDamage> HfDamages() {
  std::vector<HfDamage> damages = {
      Config("OtherLayers", "no_rope_layers", {1, 0}, kInvalidArgument,
             "kinds of layers: 2, but 5 layers"),
      Config("NoNumbers", "no_rope_layers", {"yes"}, kInvalidArgument, "no_rope_layers"),
      Config("NoPeriod", "no_rope_layer_interval", 0, kInvalidArgument,
             "no_rope_layer_interval: 0"),
      Config("Window", "use_sliding_window", true, kUnimplemented,
             "use_sliding_window: true is not supported"),
      Config("WindowOfALayer", "layer_types", {"sliding_attention"}, kUnimplemented, "layer_types"),
  };
  for (HfDamage& damage : damages) damage.model = kSmolLm3Options;
  return damages;
}

class SmolLm3Hf : public ::testing::TestWithParam<HfDamage> {};
TEST_P(SmolLm3Hf, IsRefusedByName) { CheckRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Damage, SmolLm3Hf, ::testing::ValuesIn(HfDamages()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace folio::model
