// The reference model as a GGUF file and as the directory that gguf_to_hf.py made from it: two
// independent ways to the weights that must end in the same bits.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "services/model/source/model_source.h"
#include "services/model/tokenizer/tokenizer.h"
#include "tests/model/source_reading.h"

namespace folio::model {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

TEST(ReferenceModel, GgufAndDirectoryHoldTheSameModel) {
  const std::string gguf_path = Environment("FOLIO_MODEL");
  const std::string hf_path = Environment("FOLIO_MODEL_HF");
  if (gguf_path.empty() || hf_path.empty()) {
    GTEST_SKIP() << "NOT CHECKED: set FOLIO_MODEL (GGUF file) and FOLIO_MODEL_HF (directory made "
                    "from it by tests/model/gguf_to_hf.py)";
  }
  const auto gguf = OpenModel(gguf_path);
  const auto hf = OpenModel(hf_path);
  ASSERT_TRUE(gguf.ok()) << gguf.status();
  ASSERT_TRUE(hf.ok()) << hf.status();

  const ModelConfig& a = (*gguf)->config();
  const ModelConfig& b = (*hf)->config();
  EXPECT_EQ(a.num_layers, b.num_layers);
  EXPECT_EQ(a.heads, b.heads);
  EXPECT_EQ(a.kv_heads, b.kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.rope_theta, b.rope_theta);
  EXPECT_EQ(a.norm_eps, b.norm_eps);
  EXPECT_EQ(a.tied_embeddings, b.tied_embeddings);

  std::vector<std::vector<kernels::bf16>> matrices[2];
  std::vector<std::vector<float>> vectors[2];
  ASSERT_TRUE(ReadAll(**gguf, matrices[0], vectors[0]).ok());
  ASSERT_TRUE(ReadAll(**hf, matrices[1], vectors[1]).ok());
  ASSERT_EQ(matrices[0].size(), 2 + 7 * a.num_layers);
  ASSERT_EQ(matrices[0].size(), matrices[1].size());
  for (size_t i = 0; i < matrices[0].size(); ++i) {
    ASSERT_EQ(matrices[0][i].size(), matrices[1][i].size());
    EXPECT_EQ(std::memcmp(matrices[0][i].data(), matrices[1][i].data(),
                          matrices[0][i].size() * sizeof(kernels::bf16)),
              0)
        << "matrix " << i;
  }
  EXPECT_EQ(vectors[0], vectors[1]);

  const TokenizerSpec& one = (*gguf)->tokenizer();
  const TokenizerSpec& two = (*hf)->tokenizer();
  EXPECT_EQ(one.chat_template, two.chat_template);
  EXPECT_EQ(one.bos_token, two.bos_token);
  EXPECT_EQ(one.eos_token, two.eos_token);
  EXPECT_EQ(one.eos_ids, two.eos_ids);
  EXPECT_EQ(one.add_bos, two.add_bos);
  const auto first = Tokenizer::Create(one, a.vocab);
  const auto second = Tokenizer::Create(two, b.vocab);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  const std::string text = "<|im_start|>user\nIt's 1234 o'clock, caf\xc3\xa9 \xf0\x9f\x8d\x95\n";
  EXPECT_EQ((*first)->Encode(text).value(), (*second)->Encode(text).value());
}

}  // namespace
}  // namespace folio::model
