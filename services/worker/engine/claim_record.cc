#include "services/worker/engine/claim_record.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/wire/output_options.h"
#include "services/wire/sampling_check.h"
#include "services/worker/engine/plan_check.h"

namespace folio::worker {
namespace {

// `what` is the part of the record that does not fit.
absl::Status RecordUnfit(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the manager's record does not fit: ", what));
}

absl::Status CheckLengths(const ClaimResult& record, uint32_t context) {
  const uint64_t tokens = record.tokens.size();
  const uint32_t prompt = record.prompt_tokens.value();
  const uint32_t length = record.logical_length.value();
  const uint64_t most = uint64_t{prompt} + record.max_new_tokens.value();
  if (record.max_new_tokens == TokenCount(0)) return RecordUnfit("max_new_tokens is 0");
  if (most > context) {
    return RecordUnfit(absl::StrCat("its prompt of ", prompt, " tokens and max_new_tokens ",
                                    record.max_new_tokens.value(),
                                    " exceed the model's context of ", context));
  }
  if (prompt == 0 || prompt > tokens || length > tokens || tokens > most) {
    return RecordUnfit("its tokens");
  }
  // Every step that ends at or behind the prompt's end gives one token more than it writes.
  // There are more if the sequence was parked, and some of them are still to be computed again.
  const uint32_t known = length < prompt ? prompt : length + 1;
  return tokens >= known ? absl::OkStatus() : RecordUnfit("the next token is not known");
}

absl::Status CheckIds(const std::vector<TokenId>& tokens, uint32_t vocab) {
  const auto wrong = std::find_if(tokens.begin(), tokens.end(),
                                  [&](TokenId token) { return token.value() >= vocab; });
  if (wrong == tokens.end()) return absl::OkStatus();
  return RecordUnfit(absl::StrCat("token ", wrong - tokens.begin(), " is ", wrong->value(),
                                  ", the vocabulary has ", vocab, " tokens"));
}

absl::Status CheckReceived(const std::vector<TokenId>& received,
                           const std::vector<TokenId>& sampled, uint32_t max_new_tokens) {
  if (received.size() > max_new_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("resume.received_tokens has ", received.size(),
                                                   " tokens, more than the sequence's max_tokens ",
                                                   max_new_tokens));
  }
  for (size_t i = 0; i < std::min(received.size(), sampled.size()); ++i) {
    if (received[i] == sampled[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "resume.received_tokens[", i, "] is ", received[i].value(), ", the sequence has ",
        sampled[i].value(), " there: give the tokens of all its chunks in order"));
  }
  return absl::OkStatus();
}

// The tokens at these positions, or nothing if the positions do not ascend below `length`.
std::optional<uint64_t> CountTokens(const std::vector<PositionRange>& positions, Position length) {
  uint64_t tokens = 0;
  Position end;
  for (const PositionRange& range : positions) {
    if (range.begin < end || range.begin >= range.end) return std::nullopt;
    end = range.end;
    tokens += (range.end - range.begin).value();
  }
  if (end > length) return std::nullopt;
  return tokens;
}

}  // namespace

absl::StatusOr<std::vector<TokenId>> TakeRequest(const ClaimResult& record,
                                                 const RecordLimits& limits,
                                                 SequenceRequest* request) {
  if (absl::Status s = CheckLengths(record, limits.context); !s.ok()) return s;
  if (absl::Status s = CheckIds(record.tokens, limits.vocab); !s.ok()) return s;
  const auto sampling = wire::CheckSampling(wire::ParametersOf(record.sampling));
  if (!sampling.ok()) return RecordUnfit(sampling.status().message());
  const auto output = wire::ParseOutputOptions(record.output);
  if (!output.has_value()) return RecordUnfit("its output options");
  absl::Status fits = CheckOutput(*output, limits.vocab);
  fits.Update(CheckMinTokens(output->min_tokens, record.max_new_tokens.value()));
  fits.Update(CheckBiases(sampling->changes, limits.vocab));
  if (!fits.ok()) return RecordUnfit(fits.message());
  const auto prompt_end = record.tokens.begin() + record.prompt_tokens.value();
  request->prompt.assign(record.tokens.begin(), prompt_end);
  request->max_new_tokens = record.max_new_tokens.value();
  request->sampling = wire::ParametersOf(*sampling);
  request->label = record.label;
  request->tenant = record.tenant;
  request->priority = record.priority;
  request->output = *output;

  std::vector<TokenId> sampled(prompt_end, record.tokens.end());
  const std::vector<TokenId>& received = request->resume->received;
  if (absl::Status status = CheckReceived(received, sampled, request->max_new_tokens);
      !status.ok()) {
    return status;
  }
  return sampled;
}

absl::Status ValidateTables(const ClaimResult& record, const CacheGeometry& geometry,
                            uint32_t num_pages, const PromptStops& stops, uint32_t prefill_ahead) {
  if (record.layers.size() != geometry.num_layers) return RecordUnfit("its layers");
  const Position length(record.logical_length.value());
  const uint32_t stop = stops.Next(length.value());
  const uint32_t to_compute = std::min(stop - std::min(stop, length.value()), prefill_ahead);
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    const ClaimedLayer& table = record.layers[layer];
    const std::optional<uint64_t> tokens = CountTokens(table.positions, length);
    if (!tokens.has_value() || !PagesFit(table.pages, num_pages)) {
      return RecordUnfit(absl::StrCat("the table of layer ", layer));
    }
    if (*tokens + to_compute > uint64_t{geometry.page_tokens} * table.pages.size()) {
      return RecordUnfit(absl::StrCat("the pages of layer ", layer));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateWindow(const ClaimResult& record, uint32_t queries) {
  const uint32_t prompt = record.prompt_tokens.value();
  const uint32_t length = record.logical_length.value();
  if (length >= prompt || prompt - length >= queries) return absl::OkStatus();
  return RecordUnfit(absl::StrCat("only ", prompt - length, " of the last ", queries,
                                  " tokens of its prompt are still to be computed"));
}

}  // namespace folio::worker
