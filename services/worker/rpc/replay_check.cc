#include "services/worker/rpc/replay_check.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/invalid_argument.h"
#include "services/base/thread_time.h"
#include "services/worker/engine/output_rules.h"

namespace folio::worker {
namespace {

constexpr absl::string_view kField = "replay.received_tokens";

// Whether the answer ends with its token number `at`, as Delivery has it.
bool EndsAnswer(const std::vector<TokenId>& tokens, size_t at, const SequenceRequest& request,
                const ModelLimits& limits) {
  if (at + 1 < request.output.min_tokens) return false;
  if (!request.output.ignore_eos && limits.tokenizer->IsEos(tokens[at])) return true;
  const std::vector<TokenId>& stops = request.output.stop_tokens;
  return std::find(stops.begin(), stops.end(), tokens[at]) != stops.end();
}

absl::Status CheckEnd(const std::vector<TokenId>& tokens, const SequenceRequest& request,
                      const ModelLimits& limits) {
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (!EndsAnswer(tokens, i, request, limits)) continue;
    return InvalidArgument(kField, "[", i, "] is ", tokens[i].value(),
                           ", which ends the answer, and more tokens follow");
  }
  return absl::OkStatus();
}

// The step loop would end an answer that leaves its form as if the fault were the worker's, and it
// bounds the time that a form takes.
absl::Status CheckForm(const std::vector<TokenId>& tokens, const SequenceRequest& request,
                       const ModelLimits& limits) {
  if (request.grammar == nullptr) return absl::OkStatus();
  const absl::Duration begun = ThreadTime();
  auto state = request.grammar->Start();
  if (!state.ok()) return state.status();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (EndsAnswer(tokens, i, request, limits)) return absl::OkStatus();
    absl::Status accepted = (*state)->Accept(tokens[i]);
    if (absl::IsInvalidArgument(accepted)) {
      return InvalidArgument(kField, "[", i, "] is ", tokens[i].value(),
                             ", which the format does not allow there");
    }
    if (!accepted.ok()) return accepted;
    const auto most = kFormTimeAhead + static_cast<double>(i + 1) * kFormTimePerToken;
    if (ThreadTime() - begun <= most) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the format takes more than ", absl::FormatDuration(most), " for ", i + 1, " of ", kField,
        ", for which other requests wait; give a format that is less ambiguous"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckReplay(const folio::v1::GenerateRequest& request, const ModelLimits& limits,
                         SequenceRequest* checked) {
  const std::string& model = request.replay().model_fingerprint();
  if (!model.empty() && model != limits.fingerprint) {
    return absl::FailedPreconditionError(
        "replay.model_fingerprint: the answer was begun with another model than this worker has; "
        "ask a worker of that model, or send the request without replay");
  }
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
  if (absl::Status s = CheckEnd(*tokens, *checked, limits); !s.ok()) return s;
  if (absl::Status s = CheckForm(*tokens, *checked, limits); !s.ok()) return s;
  checked->replayed = *std::move(tokens);
  return absl::OkStatus();
}

}  // namespace folio::worker
