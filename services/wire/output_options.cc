#include "services/wire/output_options.h"

#include "folio/v1/kv_manager.pb.h"

namespace folio::wire {
namespace {

void Write(const OutputFormat& format, v1::OutputFormat* out) {
  switch (format.kind) {
    case OutputFormat::Kind::kFree:
      return;
    case OutputFormat::Kind::kJsonSchema:
      return out->set_json_schema(format.text);
    case OutputFormat::Kind::kRegex:
      return out->set_regex(format.text);
    case OutputFormat::Kind::kGrammar:
      return out->set_grammar(format.text);
  }
}

}  // namespace

OutputFormat FromProto(const v1::OutputFormat& format) {
  switch (format.kind_case()) {
    case v1::OutputFormat::kJsonSchema:
      return {OutputFormat::Kind::kJsonSchema, format.json_schema()};
    case v1::OutputFormat::kRegex:
      return {OutputFormat::Kind::kRegex, format.regex()};
    case v1::OutputFormat::kGrammar:
      return {OutputFormat::Kind::kGrammar, format.grammar()};
    case v1::OutputFormat::KIND_NOT_SET:
      break;
  }
  return {};
}

std::string Serialize(const OutputOptions& options) {
  v1::OutputOptions message;
  for (const std::string& stop : options.stop) message.add_stop(stop);
  message.set_ignore_eos(options.ignore_eos);
  if (options.logprobs.has_value()) message.set_logprobs(*options.logprobs);
  message.set_min_tokens(options.min_tokens);
  for (const TokenId token : options.stop_tokens) message.add_stop_token_ids(token.value());
  if (options.format.kind != OutputFormat::Kind::kFree) {
    Write(options.format, message.mutable_format());
  }
  return message.SerializeAsString();
}

std::optional<OutputOptions> ParseOutputOptions(const std::string& bytes) {
  v1::OutputOptions message;
  if (!message.ParseFromString(bytes)) return std::nullopt;
  OutputOptions options;
  options.stop.assign(message.stop().begin(), message.stop().end());
  options.ignore_eos = message.ignore_eos();
  if (message.has_logprobs()) options.logprobs = message.logprobs();
  options.min_tokens = message.min_tokens();
  for (const uint32_t token : message.stop_token_ids()) options.stop_tokens.emplace_back(token);
  options.format = FromProto(message.format());
  return options;
}

}  // namespace folio::wire
