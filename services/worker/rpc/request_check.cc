#include "services/worker/rpc/request_check.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/fair_turns.h"
#include "services/base/invalid_argument.h"
#include "services/base/protocol.h"
#include "services/base/steady_time.h"
#include "services/base/urgency.h"
#include "services/wire/sampling.h"
#include "services/wire/session_limits.h"
#include "services/worker/engine/output_rules.h"
#include "services/worker/rpc/replay_check.h"

namespace folio::worker {

namespace v1 = folio::v1;

namespace {

// A longer text cannot fit into the context, because tokens of this average length do not exist.
size_t MaxTextBytes(const ModelLimits& limits) {
  return std::max<size_t>(size_t{1} << 20, size_t{64} * limits.context);
}

absl::Status CheckTextBytes(absl::string_view field, size_t bytes, const ModelLimits& limits) {
  if (bytes <= MaxTextBytes(limits)) return absl::OkStatus();
  return InvalidArgument(field, " is ", bytes, " bytes long, the most is ", MaxTextBytes(limits));
}

// An error of the tokenizer, with the field's name in front.
absl::Status At(absl::string_view field, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(field, ": ", status.message()));
}

absl::StatusOr<std::vector<TokenId>> EncodeText(absl::string_view text, absl::string_view field,
                                                const ModelLimits& limits) {
  if (absl::Status s = CheckTextBytes(field, text.size(), limits); !s.ok()) return s;
  auto ids = limits.tokenizer->Encode(text);
  if (!ids.ok()) return At(field, ids.status());
  return ids;
}

absl::StatusOr<std::vector<TokenId>> EncodeChat(const v1::Chat& chat, absl::string_view field,
                                                const ModelLimits& limits, std::string* rendered) {
  if (chat.messages().empty()) return InvalidArgument(field, ".chat.messages must not be empty");
  if (chat.messages_size() > kMaxChatMessages) {
    return InvalidArgument(field, ".chat.messages has ", chat.messages_size(),
                           " entries, the most is ", kMaxChatMessages);
  }
  std::vector<model::Message> messages;
  size_t bytes = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    const v1::ChatMessage& message = chat.messages(i);
    if (message.role().empty()) {
      return InvalidArgument(field, ".chat.messages[", i,
                             "].role must not be empty; templates know system, user and assistant");
    }
    bytes += message.role().size() + message.content().size() + message.fields().size();
    messages.push_back({message.role(), message.content(), message.fields()});
  }
  bytes += chat.tools().size() + chat.template_arguments().size();
  const std::string name = absl::StrCat(field, ".chat");
  if (absl::Status s = CheckTextBytes(name, bytes, limits); !s.ok()) return s;
  auto chat_text =
      limits.tokenizer->RenderChat(messages, {chat.tools(), chat.template_arguments()});
  if (!chat_text.ok()) return At(name, chat_text.status());
  if (limits.special_tokens_in_chat) chat_text->cuts.clear();
  if (absl::Status s = CheckTextBytes(name, chat_text->text.size(), limits); !s.ok()) return s;
  auto ids = limits.tokenizer->EncodeChat(*chat_text);
  if (!ids.ok()) return At(name, ids.status());
  if (rendered != nullptr) *rendered = std::move(chat_text->text);
  return ids;
}

absl::Status CheckLabel(absl::string_view label) {
  if (label.size() <= kMaxLabelBytes) return absl::OkStatus();
  return InvalidArgument("label is ", label.size(), " bytes long, the most is ", kMaxLabelBytes);
}

absl::Status CheckTenant(absl::string_view tenant) {
  if (tenant.size() <= kMaxTenantBytes) return absl::OkStatus();
  return InvalidArgument("tenant is ", tenant.size(), " bytes long, the most is ", kMaxTenantBytes);
}

wire::OutputOptions OutputOf(const v1::GenerateRequest& request) {
  wire::OutputOptions output;
  output.stop.assign(request.stop().begin(), request.stop().end());
  output.ignore_eos = request.ignore_eos();
  if (request.has_logprobs()) output.logprobs = request.logprobs();
  output.min_tokens = request.min_tokens();
  for (const uint32_t token : request.stop_token_ids()) output.stop_tokens.emplace_back(token);
  output.format = wire::FromProto(request.format());
  return output;
}

absl::Status CheckPriority(int32_t priority) {
  if (priority >= -kMaxPriority && priority <= kMaxPriority) return absl::OkStatus();
  return InvalidArgument("priority is ", priority, ": give a number from -", kMaxPriority, " to ",
                         kMaxPriority, "; lower ones come first");
}

absl::Status CheckLogprobs(absl::string_view field, uint32_t wanted, const ModelLimits& limits) {
  const uint32_t most = std::min(kMaxTopLogprobs, limits.vocab);
  if (wanted <= most) return absl::OkStatus();
  return InvalidArgument(field, " is ", wanted, ", the most is ", most);
}

// The session with the manager carries the prompt and the cache options.
absl::Status CheckSessionLimits(size_t prompt_tokens, const v1::CacheOptions& cache) {
  if (prompt_tokens > wire::kMaxPromptTokens) {
    return InvalidArgument("input is ", prompt_tokens, " tokens long, the most is ",
                           wire::kMaxPromptTokens);
  }
  if (cache.ByteSizeLong() <= wire::kMaxCacheOptionsBytes) return absl::OkStatus();
  return InvalidArgument("cache is ", cache.ByteSizeLong(), " bytes long, the most is ",
                         wire::kMaxCacheOptionsBytes);
}

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// The bits come from the system's generator, so that other clients cannot guess the token.
std::string NewResumeToken() {
  const uint64_t bits[] = {RandomSeed(), RandomSeed()};
  static_assert(sizeof(bits) == kResumeTokenBytes);
  return {reinterpret_cast<const char*>(bits), sizeof(bits)};
}

absl::StatusOr<SequenceRequest> CheckResume(const v1::GenerateRequest& request,
                                            const ModelLimits& limits) {
  auto received = CheckIds(request.resume().received_tokens(), "resume.received_tokens", limits);
  if (!received.ok()) return received.status();
  v1::GenerateRequest rest = request;
  rest.clear_resume();
  if (rest.ByteSizeLong() != 0) {
    return InvalidArgument(
        "resume goes alone: leave all other fields unset, the sequence has its own");
  }
  const v1::Resume& from = request.resume();
  if (from.resume_token().size() != kResumeTokenBytes) {
    return InvalidArgument("resume.resume_token is ", from.resume_token().size(),
                           " bytes long, must be ", kResumeTokenBytes,
                           ": give the one that started came with");
  }
  SequenceRequest checked;
  checked.arrival = SteadyNow();
  checked.resume_token = from.resume_token();
  checked.resume = {SequenceId(from.sequence_id()), *std::move(received)};
  return checked;
}

}  // namespace

size_t MaxRequestBytes(const ModelLimits& limits) {
  return std::max(size_t{4} << 20, MaxTextBytes(limits) + (size_t{1} << 20));
}

absl::Status CheckTokenCount(absl::string_view field, size_t count, const ModelLimits& limits) {
  if (count <= limits.context) return absl::OkStatus();
  return InvalidArgument(field, " has ", count, " tokens, more than the model's context of ",
                         limits.context);
}

absl::StatusOr<std::vector<TokenId>> CheckIds(
    const google::protobuf::RepeatedField<uint32_t>& given, absl::string_view field,
    const ModelLimits& limits) {
  const auto count = static_cast<size_t>(given.size());
  if (absl::Status status = CheckTokenCount(field, count, limits); !status.ok()) return status;
  std::vector<TokenId> ids;
  ids.reserve(count);
  for (int i = 0; i < given.size(); ++i) {
    if (given[i] >= limits.vocab) {
      return InvalidArgument(field, "[", i, "] is ", given[i], ", the vocabulary has ",
                             limits.vocab, " tokens");
    }
    ids.push_back(TokenId(given[i]));
  }
  return ids;
}

absl::StatusOr<std::vector<TokenId>> TokensOf(const v1::Input& input, absl::string_view field,
                                              const ModelLimits& limits, std::string* rendered) {
  absl::StatusOr<std::vector<TokenId>> ids;
  switch (input.kind_case()) {
    case v1::Input::kText:
      ids = EncodeText(input.text(), absl::StrCat(field, ".text"), limits);
      break;
    case v1::Input::kTokens:
      ids = CheckIds(input.tokens().ids(), absl::StrCat(field, ".tokens.ids"), limits);
      break;
    case v1::Input::kChat:
      ids = EncodeChat(input.chat(), field, limits, rendered);
      break;
    case v1::Input::KIND_NOT_SET:
      return InvalidArgument(field, " must be given: text, tokens or chat");
  }
  if (ids.ok() && ids->empty())
    return InvalidArgument(field, " is empty: at least one token is needed");
  return ids;
}

absl::StatusOr<SequenceRequest> CheckGenerate(const v1::GenerateRequest& request,
                                              const ModelLimits& limits) {
  if (request.has_resume()) return CheckResume(request, limits);
  SequenceRequest checked;
  checked.arrival = SteadyNow();
  checked.sampling = wire::FromProto(request.sampling());
  if (!checked.sampling.seed.has_value()) checked.sampling.seed = RandomSeed();
  if (auto record = wire::CheckSampling(checked.sampling); !record.ok()) return record.status();
  checked.output = OutputOf(request);
  if (absl::Status s = CheckOutput(checked.output, limits.vocab); !s.ok()) return s;
  if (absl::Status s = CheckBiases(checked.sampling.changes, limits.vocab); !s.ok()) return s;
  if (absl::Status s = CheckLabel(request.label()); !s.ok()) return s;
  if (absl::Status s = CheckPriority(request.priority()); !s.ok()) return s;
  if (absl::Status s = CheckTenant(request.tenant()); !s.ok()) return s;
  checked.tenant = request.tenant();
  checked.priority = request.priority();
  auto prompt = TokensOf(request.input(), "input", limits);
  if (!prompt.ok()) return prompt.status();
  if (absl::Status s = CheckSessionLimits(prompt->size(), request.cache()); !s.ok()) return s;
  checked.prompt = *std::move(prompt);

  const uint64_t tokens = checked.prompt.size();
  if (tokens >= limits.context) {
    return InvalidArgument("input is ", tokens,
                           " tokens long, which leaves no room in the model's context of ",
                           limits.context);
  }
  const auto rest = static_cast<uint32_t>(limits.context - tokens);
  const bool all = request.max_tokens() == kRestOfContext;
  if (request.max_tokens() > rest && !all) {
    return InvalidArgument("max_tokens is ", request.max_tokens(), "; with the input's ", tokens,
                           " tokens that is more than the model's context of ", limits.context);
  }
  const uint32_t asked = request.max_tokens() > 0 ? request.max_tokens() : kDefaultMaxTokens;
  checked.max_new_tokens = std::min(asked, rest);
  if (absl::Status s = CheckMinTokens(checked.output.min_tokens, checked.max_new_tokens); !s.ok()) {
    return s;
  }
  if (checked.output.format.kind != wire::OutputFormat::Kind::kFree) {
    auto grammar = CompileFormat(checked.output.format, *limits.tokenizer);
    if (!grammar.ok()) return grammar.status();
    checked.grammar = *std::move(grammar);
  }
  if (absl::Status s = CheckReplay(request, limits, &checked); !s.ok()) return s;
  checked.cache.bytes = request.cache().SerializeAsString();
  checked.label = request.label();
  checked.report_evictions = request.report_evictions();
  // A resumed call would miss evictions, so a client that counts them cannot resume.
  if (!checked.report_evictions) checked.resume_token = NewResumeToken();
  return checked;
}

absl::StatusOr<SequenceRequest> CheckScore(const v1::ScoreRequest& request,
                                           const ModelLimits& limits) {
  SequenceRequest checked;
  checked.arrival = SteadyNow();
  if (absl::Status s = CheckLabel(request.label()); !s.ok()) return s;
  if (absl::Status s = CheckPriority(request.priority()); !s.ok()) return s;
  if (absl::Status s = CheckTenant(request.tenant()); !s.ok()) return s;
  checked.tenant = request.tenant();
  checked.priority = request.priority();
  if (absl::Status s = CheckLogprobs("top_logprobs", request.top_logprobs(), limits); !s.ok()) {
    return s;
  }
  if (request.continuation().has_chat()) {
    return InvalidArgument("continuation.chat is not possible: give text or tokens");
  }
  auto prompt = TokensOf(request.input(), "input", limits);
  if (!prompt.ok()) return prompt.status();
  if (absl::Status s = CheckSessionLimits(prompt->size(), request.cache()); !s.ok()) return s;
  auto targets = TokensOf(request.continuation(), "continuation", limits);
  if (!targets.ok()) return targets.status();
  if (prompt->size() + targets->size() > limits.context) {
    return InvalidArgument("continuation is ", targets->size(), " tokens long; with the input's ",
                           prompt->size(), " tokens that is more than the model's context of ",
                           limits.context);
  }
  checked.prompt = *std::move(prompt);
  checked.targets = *std::move(targets);
  checked.max_new_tokens = static_cast<uint32_t>(checked.targets.size());
  checked.cache.bytes = request.cache().SerializeAsString();
  checked.sampling.seed = 0;  // nothing is sampled
  checked.label = request.label();
  checked.output.logprobs = request.top_logprobs();
  checked.report_evictions = request.report_evictions();
  return checked;
}

}  // namespace folio::worker
