#include "services/worker/engine/sequence_request.h"

#include <algorithm>

#include "services/base/invalid_argument.h"

namespace folio::worker {
namespace {

absl::Status CheckStops(const std::vector<std::string>& stops) {
  if (stops.size() > size_t{kMaxStops}) {
    return InvalidArgument("stop has ", stops.size(), " strings, the most is ", kMaxStops);
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return InvalidArgument("stop[", i, "] must not be empty");
    if (stops[i].size() > kMaxStopBytes) {
      return InvalidArgument("stop[", i, "] is ", stops[i].size(), " bytes long, the most is ",
                             kMaxStopBytes);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckStopTokens(const std::vector<TokenId>& tokens, uint32_t vocab) {
  if (tokens.size() > size_t{kMaxStopTokens}) {
    return InvalidArgument("stop_token_ids has ", tokens.size(), " tokens, the most is ",
                           kMaxStopTokens);
  }
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].value() < vocab) continue;
    return InvalidArgument("stop_token_ids[", i, "] is ", tokens[i].value(),
                           ", the vocabulary has ", vocab, " tokens");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOutput(const wire::OutputOptions& output, uint32_t vocab) {
  if (absl::Status s = CheckStops(output.stop); !s.ok()) return s;
  if (absl::Status s = CheckStopTokens(output.stop_tokens, vocab); !s.ok()) return s;
  const uint32_t most = std::min(kMaxTopLogprobs, vocab);
  if (output.logprobs.value_or(0) > most) {
    return InvalidArgument("logprobs is ", *output.logprobs, ", the most is ", most);
  }
  if (output.format.kind == wire::OutputFormat::Kind::kFree) return absl::OkStatus();
  if (output.format.text.size() > model::kMaxGrammarBytes) {
    return InvalidArgument("format is ", output.format.text.size(), " bytes long, the most is ",
                           model::kMaxGrammarBytes);
  }
  if (!output.ignore_eos) return absl::OkStatus();
  return InvalidArgument(
      "ignore_eos and format exclude each other, because an answer of that form has an end");
}

absl::Status CheckMinTokens(uint32_t min_tokens, uint32_t max_new_tokens) {
  if (min_tokens <= max_new_tokens) return absl::OkStatus();
  return InvalidArgument("min_tokens is ", min_tokens, ", more than max_tokens, which is ",
                         max_new_tokens);
}

absl::Status CheckBiases(const LogitChanges& changes, uint32_t vocab) {
  for (const LogitBias& one : changes.biases) {
    if (one.token.value() < vocab) continue;
    return InvalidArgument("sampling.logit_bias has token ", one.token.value(),
                           ", the vocabulary has ", vocab, " tokens");
  }
  return absl::OkStatus();
}

OpenSequence OpenOf(uint64_t tag, const SequenceRequest& request, TokenCount prefill_ahead) {
  return {.request_tag = tag,
          .prompt = request.prompt,
          .max_new_tokens = TokenCount(request.max_new_tokens),
          .cache = request.cache,
          .sampling = request.sampling,
          .label = request.label,
          .resume_token = request.resume_token,
          .output = wire::Serialize(request.output),
          .waits_for_room = true,
          .prefill_ahead = prefill_ahead,
          .may_be_parked = true,
          .compacts_in_prefill = true,
          .urgency = {request.priority, SteadyNow() - request.arrival},
          .tenant = request.tenant};
}

ClaimSequence ClaimOf(uint64_t tag, const SequenceRequest& request, TokenCount prefill_ahead) {
  return {.request_tag = tag,
          .sequence = request.resume->sequence,
          .resume_token = request.resume_token,
          .prefill_ahead = prefill_ahead,
          .may_be_parked = true,
          .compacts_in_prefill = true,
          .tenant = request.resume->tenant};
}

size_t MostBytes(const OpenSequence& open) {
  constexpr size_t kIdBytes = 4;       // of a vocabulary's ids, see wire/session_limits.h
  constexpr size_t kBiasBytes = 12;    // token, number and the message around them
  constexpr size_t kOtherBytes = 256;  // fields of a fixed size, and the sizes of the others
  return open.prompt.size() * kIdBytes + open.cache.bytes.size() + open.output.size() +
         open.sampling.changes.biases.size() * kBiasBytes + open.label.size() + open.tenant.size() +
         open.resume_token.size() + kOtherBytes;
}

}  // namespace folio::worker
