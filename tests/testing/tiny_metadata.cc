#include "tests/testing/tiny_metadata.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/tiny_vocabulary.h"

namespace folio::testing {

using nlohmann::json;

namespace {

// Written down once more, so that a wrong name in the product is seen.
std::string GgufArchitecture(const std::string& family) {
  if (family == "ministral3") return "mistral3";
  return family == "mistral" ? "llama" : family;
}

std::string HfArchitecture(const std::string& family) {
  if (family == "mistral") return "MistralForCausalLM";
  if (family == "ministral3") return "Ministral3ForCausalLM";
  if (family == "qwen2") return "Qwen2ForCausalLM";
  if (family == "gemma3") return "Gemma3ForCausalLM";
  if (family == "granite") return "GraniteForCausalLM";
  if (family == "smollm3") return "SmolLM3ForCausalLM";
  return family == "qwen3" ? "Qwen3ForCausalLM" : "LlamaForCausalLM";
}

void AddFamilyFields(const TinyOptions& options, json& config) {
  const std::string& family = options.family;
  if (family == "qwen2") {
    config["use_sliding_window"] = false;
    config["sliding_window"] = 32;
    config["max_window_layers"] = 1;
  } else if (family == "qwen3") {
    config["attention_bias"] = false;
    config["use_sliding_window"] = false;
    config["sliding_window"] = nullptr;
    config["max_window_layers"] = options.layers;
  } else if (family == "gemma3") {
    config["attention_bias"] = false;
    config["hidden_activation"] = "gelu_pytorch_tanh";
    config["attn_logit_softcapping"] = nullptr;
    config["final_logit_softcapping"] = nullptr;
    config["sliding_window"] = kTinyWindow;
    config["sliding_window_pattern"] = 2;
    config["rope_local_base_freq"] = kTinyLocalTheta;
    config["query_pre_attn_scalar"] = kTinyQueryScalar;
    config.erase("hidden_act");
  } else if (family == "smollm3") {
    config["attention_bias"] = false;
    config["mlp_bias"] = false;
    config["use_sliding_window"] = false;
    config["no_rope_layer_interval"] = 4;
  } else if (family == "granite") {
    config["attention_bias"] = false;
    config["mlp_bias"] = false;
    config["embedding_multiplier"] = 12.0;
    config["attention_multiplier"] = 0.0625;
    config["residual_multiplier"] = 0.25;
    config["logits_scaling"] = 8.0;
  } else if (family == "mistral" || family == "ministral3") {
    config["sliding_window"] = nullptr;
  } else {
    config["attention_bias"] = false;
    config["mlp_bias"] = false;
  }
}

void AddFamilyFields(const TinyOptions& options, GgufImage& image) {
  if (options.family == "granite") {
    image.SetFloat("granite.embedding_scale", 12);
    image.SetFloat("granite.attention.scale", 0.0625);
    image.SetFloat("granite.residual_scale", 0.25);
    image.SetFloat("granite.logit_scale", 8);
  }
  if (options.family != "gemma3") return;
  image.SetUint("gemma3.attention.sliding_window", kTinyWindow);
  std::string kinds(12, '\0');  // of booleans, as many as layers, in 64 bits
  kinds[0] = static_cast<char>(model::GgufType::kBool);
  kinds[4] = static_cast<char>(options.layers);
  for (uint32_t i = 0; i < options.layers; ++i) kinds.push_back(i % 2 == 0 ? '\1' : '\0');
  image.SetRaw("gemma3.attention.sliding_window_pattern", model::GgufType::kArray, kinds);
  image.SetFloat("gemma3.rope.freq_base_swa", kTinyLocalTheta);
  image.SetFloat("gemma3.attention.scale", 1 / std::sqrt(kTinyQueryScalar));
}

}  // namespace

void SetTinyMetadata(const TinyOptions& options, GgufImage& image) {
  const std::string architecture = GgufArchitecture(options.family);
  const auto key = [&](const char* name) { return absl::StrCat(architecture, ".", name); };
  image.SetString("general.architecture", architecture);
  image.SetString("general.name", "tiny");
  image.SetUint(key("block_count"), options.layers);
  image.SetUint(key("context_length"), options.context);
  image.SetUint(key("embedding_length"), options.hidden);
  image.SetUint(key("feed_forward_length"), options.ffn);
  image.SetUint(key("attention.head_count"), options.heads);
  image.SetUint(key("attention.head_count_kv"), options.kv_heads);
  image.SetUint(key("attention.key_length"), options.head_dim);
  image.SetUint(key("attention.value_length"), options.head_dim);
  image.SetFloat(key("attention.layer_norm_rms_epsilon"), 1e-5f);
  image.SetFloat(key("rope.freq_base"), options.rope_theta);
  image.SetUint(key("rope.dimension_count"), options.head_dim);
  image.SetUint(key("vocab_size"), kTinyVocab);
  image.SetString("tokenizer.ggml.model", "gpt2");
  image.SetString("tokenizer.ggml.pre", options.family.starts_with("qwen") ? "qwen2" : "smollm");
  image.SetStrings("tokenizer.ggml.tokens", TinyTokens());
  image.SetInts("tokenizer.ggml.token_type", TinyTokenTypes());
  image.SetStrings("tokenizer.ggml.merges", TinyMerges());
  image.SetUint("tokenizer.ggml.bos_token_id", kTinyImStart);
  image.SetUint("tokenizer.ggml.eos_token_id", kTinyImEnd);
  image.SetBool("tokenizer.ggml.add_bos_token", false);
  image.SetString("tokenizer.chat_template", TinyChatTemplate());
  AddFamilyFields(options, image);
}

json TinyHfConfig(const TinyOptions& options) {
  json config = {{"architectures", {HfArchitecture(options.family)}},
                 {"model_type", options.family == "gemma3" ? "gemma3_text" : options.family},
                 {"_name_or_path", "tiny"},
                 {"hidden_act", "silu"},
                 {"hidden_size", options.hidden},
                 {"intermediate_size", options.ffn},
                 {"num_hidden_layers", options.layers},
                 {"num_attention_heads", options.heads},
                 {"num_key_value_heads", options.kv_heads},
                 {"head_dim", options.head_dim},
                 {"max_position_embeddings", options.context},
                 {"rms_norm_eps", 1e-5},
                 {"rope_theta", options.rope_theta},
                 {"rope_scaling", nullptr},
                 {"tie_word_embeddings", options.tied},
                 {"vocab_size", kTinyVocab},
                 {"eos_token_id", kTinyImEnd}};
  AddFamilyFields(options, config);
  if (options.rope_scaling) {
    config["rope_scaling"] = {
        {"rope_type", "llama3"},
        {"factor", options.rope_scaling->factor},
        {"low_freq_factor", options.rope_scaling->low_freq_factor},
        {"high_freq_factor", options.rope_scaling->high_freq_factor},
        {"original_max_position_embeddings", options.rope_scaling->original_context}};
  }
  return config;
}

}  // namespace folio::testing
