#include "services/gateway/openai/common_fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/openai/api_error.h"

namespace folio::gateway {
namespace {

void ReadLogitBias(FieldReader& fields, v1::SamplingParams* sampling) {
  const Json* biases = fields.Object("logit_bias");
  if (biases == nullptr) return;
  for (const auto& [key, value] : biases->items()) {
    uint32_t token = 0;
    const double bias = value.is_number() ? value.get<double>() : 1000;
    if (!absl::SimpleAtoi(key, &token) || bias < -100 || bias > 100) {
      fields.Fail("logit_bias", "must map token ids to numbers from -100 to 100");
      return;
    }
    v1::LogitBias* added = sampling->add_logit_bias();
    added->set_token(token);
    added->set_bias(static_cast<float>(bias));
  }
}

void ReadSampling(FieldReader& fields, v1::SamplingParams* sampling) {
  const auto real = [&](const char* name, double least, double most, double otherwise) {
    return static_cast<float>(fields.Number(name, least, most).value_or(otherwise));
  };
  sampling->set_temperature(real("temperature", 0, FieldReader::kInfinite, 1));
  if (fields.Find("top_p") != nullptr) {
    const float top_p = real("top_p", 0, 1, 1);
    if (!(top_p > 0)) fields.Fail("top_p", "must be above 0 and at most 1");
    sampling->set_top_p(top_p);
  }
  // vLLM writes -1 for all tokens.
  const int64_t top_k = fields.Integer("top_k", -1, kMost32).value_or(0);
  sampling->set_top_k(static_cast<uint32_t>(std::max<int64_t>(top_k, 0)));
  sampling->set_min_p(real("min_p", 0, 1, 0));
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (const auto seed = fields.Integer("seed", kLeast, kMost); seed.has_value()) {
    sampling->set_seed(static_cast<uint64_t>(*seed));
  }
  sampling->set_presence_penalty(real("presence_penalty", -2, 2, 0));
  sampling->set_frequency_penalty(real("frequency_penalty", -2, 2, 0));
  if (const auto penalty = fields.Number("repetition_penalty", 0.01, 100); penalty.has_value()) {
    sampling->set_repetition_penalty(static_cast<float>(*penalty));
  }
  ReadLogitBias(fields, sampling);
}

void ReadStops(FieldReader& fields, v1::GenerateRequest* request) {
  for (const uint32_t token : fields.Tokens("stop_token_ids")) request->add_stop_token_ids(token);
  const Json* stop = fields.Find("stop");
  if (stop == nullptr) return;
  const Json one = stop->is_string() ? Json::array({*stop}) : Json();
  const Json& all = stop->is_string() ? one : *stop;
  const bool strings = all.is_array() && std::all_of(all.begin(), all.end(), [](const Json& each) {
                         return each.is_string();
                       });
  if (!strings) return fields.Fail("stop", "must be a string or a list of strings");
  for (const Json& each : all) {
    // An empty one stops nothing.
    if (const auto text = each.get<std::string>(); !text.empty()) request->add_stop(text);
  }
}

void ReadStreaming(FieldReader& fields, Call* call) {
  call->stream = fields.Bool("stream").value_or(false);
  const Json* options = fields.Object("stream_options");
  if (options == nullptr) return;
  if (!call->stream) return fields.Fail("stream_options", "is allowed only with 'stream'");
  FieldReader inner(*options, "stream_options.");
  call->include_usage = inner.Bool("include_usage").value_or(false);
  call->continuous_usage = inner.Bool("continuous_usage_stats").value_or(false);
  if (!inner.status().ok()) fields.Fail(inner.status());
}

// Fields that would change the answer and that Folio cannot follow.
void RefuseUnsupported(FieldReader& fields) {
  static constexpr char kNot[] = "is not supported";
  for (const char* name :
       {"echo", "suffix", "use_beam_search", "prompt_logprobs", "include_stop_str_in_output",
        "functions", "audio", "documents", "chat_template", "continue_final_message",
        "truncate_prompt_tokens", "bad_words", "allowed_token_ids", "logits_processors",
        "prompt_embeds"}) {
    fields.Refuse(name, kNot);
  }
  for (const char* name : {"add_generation_prompt", "skip_special_tokens"}) {
    if (!fields.Bool(name).value_or(true)) fields.Fail(name, "may not be false");
  }
}

}  // namespace

int64_t ReadCommon(FieldReader& fields, Call* call, v1::GenerateRequest* request) {
  call->model = fields.String("model").value_or("");
  ReadStreaming(fields, call);
  ReadSampling(fields, request->mutable_sampling());
  ReadStops(fields, request);
  request->set_min_tokens(
      static_cast<uint32_t>(fields.Integer("min_tokens", 0, kMostTokens).value_or(0)));
  if (const auto most = fields.Integer("max_tokens", 1, kMostTokens); most.has_value()) {
    request->set_max_tokens(static_cast<uint32_t>(*most));
  }
  request->set_ignore_eos(fields.Bool("ignore_eos").value_or(false));
  request->set_priority(static_cast<int32_t>(fields.Integer("priority", -100, 100).value_or(0)));
  request->set_label(fields.String("user").value_or(""));
  call->session = fields.String("prompt_cache_key").value_or("");
  ReadFormat(fields, request);
  ReadCache(fields, call, request);
  RefuseUnsupported(fields);
  const int64_t n = fields.Integer("n", 1, kMostChoices).value_or(1);
  call->per_prompt = static_cast<size_t>(n);
  if (const auto best = fields.Integer("best_of", 1, kMostChoices); best.value_or(n) != n) {
    fields.Fail("best_of", "is not supported unless it is equal to 'n'");
  }
  return n;
}

absl::Status AddChoices(const v1::GenerateRequest& request, int64_t n, Call* call) {
  const uint64_t all = call->choices.size() + static_cast<uint64_t>(n);
  if (call->report_kept && all > 1) {
    return FieldError("cache.report_kept", "is for one choice of one prompt");
  }
  // Each choice has the prompt.
  if (n > 1 && all * request.ByteSizeLong() > kMostChoiceBytes) {
    return FieldError("n", absl::StrCat("times the size of the prompt may be at most ",
                                        kMostChoiceBytes, " bytes"));
  }
  for (int64_t i = 0; i < n; ++i) {
    v1::GenerateRequest& choice = call->choices.emplace_back(request);
    if (i == 0 || !request.sampling().has_seed()) continue;
    choice.mutable_sampling()->set_seed(request.sampling().seed() + static_cast<uint64_t>(i));
  }
  return absl::OkStatus();
}

}  // namespace folio::gateway
