#include "services/worker/engine/claim_record.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "services/wire/output_options.h"
#include "services/worker/engine/plan_check.h"

namespace folio::worker {
namespace {

// `what` is the part of the record that does not fit.
absl::Status RecordUnfit(absl::string_view what) {
  return absl::InternalError(absl::StrCat("the manager's record does not fit: ", what));
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
                                                 SequenceRequest* request) {
  const auto tokens = static_cast<uint32_t>(record.tokens.size());
  const uint32_t prompt = record.prompt_tokens.value();
  const uint32_t length = record.logical_length.value();
  if (prompt == 0 || prompt > tokens || length > tokens) return RecordUnfit("its tokens");
  // Every step that ends at or behind the prompt's end gives one token more than it writes.
  const uint32_t known = length < prompt ? prompt : length + 1;
  if (tokens != known) return RecordUnfit("the next token is not known");
  const auto output = wire::ParseOutputOptions(record.output);
  if (!output.has_value()) return RecordUnfit("its output options");
  const auto prompt_end = record.tokens.begin() + prompt;
  request->prompt.assign(record.tokens.begin(), prompt_end);
  request->max_new_tokens = record.max_new_tokens.value();
  request->sampling = {.temperature = record.sampling.temperature,
                       .top_k = record.sampling.top_k,
                       .top_p = record.sampling.top_p,
                       .min_p = record.sampling.min_p,
                       .seed = record.sampling.seed};
  request->label = record.label;
  request->stop = output->stop;
  request->ignore_eos = output->ignore_eos;
  request->top_logprobs = output->logprobs ? static_cast<int>(*output->logprobs) : -1;

  std::vector<TokenId> sampled(prompt_end, record.tokens.end());
  const std::vector<TokenId>& received = request->resume->received;
  if (absl::Status status = CheckReceived(received, sampled, request->max_new_tokens);
      !status.ok()) {
    return status;
  }
  return sampled;
}

absl::Status ValidateTables(const ClaimResult& record, const CacheGeometry& geometry,
                            uint32_t num_pages) {
  if (record.layers.size() != geometry.num_layers) return RecordUnfit("its layers");
  const Position length(record.logical_length.value());
  const uint32_t prompt = record.prompt_tokens.value();
  const uint32_t to_compute = prompt - std::min(prompt, length.value());
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

}  // namespace folio::worker
