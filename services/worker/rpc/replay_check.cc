#include "services/worker/rpc/replay_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/base/invalid_argument.h"

namespace folio::worker {
namespace {

constexpr absl::string_view kField = "replay.received_tokens";

bool EndsAnswer(TokenId token, const SequenceRequest& request, const ModelLimits& limits) {
  const std::vector<TokenId>& stops = request.output.stop_tokens;
  return limits.tokenizer->IsEos(token) ||
         std::find(stops.begin(), stops.end(), token) != stops.end();
}

// The step loop would end an answer that leaves its form as if the fault were the worker's.
absl::Status CheckForm(const std::vector<TokenId>& tokens, const SequenceRequest& request,
                       const ModelLimits& limits) {
  if (request.grammar == nullptr) return absl::OkStatus();
  auto state = request.grammar->Start();
  if (!state.ok()) return state.status();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (EndsAnswer(tokens[i], request, limits)) return absl::OkStatus();
    const absl::Status accepted = (*state)->Accept(tokens[i]);
    if (accepted.ok()) continue;
    if (!absl::IsInvalidArgument(accepted)) return accepted;
    return InvalidArgument(kField, "[", i, "] is ", tokens[i].value(),
                           ", which the format does not allow there");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReplay(const folio::v1::GenerateRequest& request, const ModelLimits& limits,
                         SequenceRequest* checked) {
  if (request.replay().received_tokens().empty()) return absl::OkStatus();
  auto tokens = CheckIds(request.replay().received_tokens(), kField, limits);
  if (!tokens.ok()) return tokens.status();
  if (tokens->size() > checked->max_new_tokens) {
    return InvalidArgument(kField, " has ", tokens->size(),
                           " tokens, more than max_tokens, which is ", checked->max_new_tokens);
  }
  if (!request.sampling().has_seed()) {
    return InvalidArgument("sampling.seed must be set with ", kField,
                           ": give the seed that started came with");
  }
  if (absl::Status s = CheckForm(*tokens, *checked, limits); !s.ok()) return s;
  checked->replayed = *std::move(tokens);
  return absl::OkStatus();
}

}  // namespace folio::worker
