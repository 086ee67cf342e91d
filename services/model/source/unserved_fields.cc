#include "services/model/source/unserved_fields.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/model/source/gguf_fields.h"

namespace folio::model {
namespace {

using nlohmann::json;

// A number of a GGUF file that must have this value, if the file has it.
struct NumberLimit {
  absl::string_view key;  // behind "<architecture>."
  double only;
};

constexpr NumberLimit kNumbers[] = {
    {"expert_count", 0},
    {"expert_used_count", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"router_logit_softcapping", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"attention.scale", 0},
    {"attention.q_lora_rank", 0},
    {"attention.kv_lora_rank", 0},
    {"attention.causal", 1},
    {"use_parallel_residual", 0},
    {"nextn_predict_layers", 0},
    {"embedding_length_per_layer_input", 0},
    {"logit_scale", 1},
    {"embedding_scale", 1},
    {"residual_scale", 1},
};

// Parts of other models, whatever their values.
constexpr absl::string_view kParts[] = {"ssm.",      "wkv.",    "rwkv.",      "vision.", "audio.",
                                        "convnext.", "posnet.", "shortconv.", "altup."};

bool IsOwn(const Family& family, absl::string_view key) {
  return absl::c_any_of(family.own_fields,
                        [key](const char* own) { return key == absl::string_view(own); });
}

std::optional<double> Number(const GgufValue& value) {
  if (const auto* natural = std::get_if<uint64_t>(&value)) return static_cast<double>(*natural);
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1 : 0;
  return std::nullopt;
}

// Parts of a head, each rotated by a position of its own (M-RoPE).
absl::Status RefuseSections(const GgufFile& gguf, const std::string& key) {
  const GgufValue* value = gguf.Find(key);
  const auto* sections = value == nullptr ? nullptr : std::get_if<GgufArray>(value);
  if (value == nullptr) return absl::OkStatus();
  const bool none = sections != nullptr && absl::c_all_of(sections->bytes, [](std::byte each) {
                      return each == std::byte{};
                    });
  if (none) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(gguf.path(), ": ", key, ": one position for each section is not supported"));
}

// A field of config.json that must have one of these values, if the file has it.
struct JsonLimit {
  const char* key;
  const char* served;  // a JSON list; null is always served
};

constexpr JsonLimit kJson[] = {
    {"num_experts", "[0, 1]"},
    {"num_local_experts", "[0, 1]"},
    {"n_routed_experts", "[0]"},
    {"moe_intermediate_size", "[0]"},
    {"attn_logit_softcapping", "[0]"},
    {"final_logit_softcapping", "[0]"},
    {"alibi", "[false]"},
    {"position_embedding_type", "[\"rope\", \"rotary\"]"},
    {"clip_qkv", "[0]"},
    {"logit_scale", "[1]"},
    {"logits_scaling", "[1]"},
    {"embedding_multiplier", "[1]"},
    {"residual_multiplier", "[1]"},
    {"attention_multiplier", "[]"},
    {"query_pre_attn_scalar", "[]"},
    {"attention_sink", "[false]"},
    {"add_swa_attention_sink_bias", "[false]"},
    {"add_full_attention_sink_bias", "[false]"},
    {"use_qk_norm", "[false]"},
    {"qk_layernorm", "[false]"},
    {"is_encoder_decoder", "[false]"},
    {"kv_lora_rank", "[0]"},
    {"q_lora_rank", "[0]"},
    {"num_nextn_predict_layers", "[0]"},
    {"layers_block_type", "[]"},
    {"hybrid_override_pattern", "[]"},
    {"full_attention_interval", "[0, 1]"},
    {"no_rope_layers", "[]"},
    {"mamba_d_state", "[]"},
    {"ssm_cfg", "[]"},
};

}  // namespace

absl::Status RefuseUnserved(const GgufFile& gguf, const Family& family) {
  const GgufKeys full(family.gguf_architecture);
  for (const NumberLimit& limit : kNumbers) {
    const GgufValue* value = gguf.Find(full(limit.key));
    if (value == nullptr || IsOwn(family, limit.key)) continue;
    const std::optional<double> number = Number(*value);
    if (!number.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(gguf.path(), ": ", full(limit.key), ": not a number"));
    }
    if (*number == limit.only) continue;
    return Unsupported(gguf, full(limit.key), *number, absl::StrCat("only ", limit.only));
  }
  for (const std::string& key : gguf.Keys()) {
    absl::string_view rest = key;
    if (!absl::ConsumePrefix(&rest, full(""))) continue;
    const bool other = absl::c_any_of(
        kParts, [rest](absl::string_view part) { return absl::StartsWith(rest, part); });
    if (!other || IsOwn(family, rest)) continue;
    return absl::UnimplementedError(absl::StrCat(
        gguf.path(), ": ", key, ": a part that the family ", family.title, " does not have"));
  }
  return RefuseSections(gguf, full("rope.dimension_sections"));
}

absl::Status RefuseUnserved(const JsonFields& fields, const Family& family,
                            const std::string& where) {
  for (const JsonLimit& limit : kJson) {
    const json* value = fields.Find(limit.key);
    if (value == nullptr || IsOwn(family, limit.key)) continue;
    const json served = json::parse(limit.served);
    if (absl::c_linear_search(served, *value)) continue;
    return Unsupported(where, limit.key, *value,
                       served.empty() ? "only null" : absl::StrCat("only ", served.dump()));
  }
  return absl::OkStatus();
}

}  // namespace folio::model
