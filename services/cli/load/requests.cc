#include "services/cli/load/requests.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace folio::load {
namespace {

// Ranges of the vocabulary that are asked for, at most. A longer range loses more neighbours of a
// special token, and a shorter one takes more calls.
constexpr uint32_t kRanges = 64;

// The most tokens that a prompt may have, so that an output has room.
uint32_t LongestPrompt(const RequestPlan& plan) {
  const uint32_t output = std::min(plan.output.most().value_or(1), plan.context - 1);
  return plan.context - output;
}

}  // namespace

Made MakeRequest(const RequestPlan& plan, uint64_t number) {
  // Each request has a stream of its own, whatever was made before.
  SplitMix64 random = SplitMix64::Of({plan.seed, number});
  Made made;
  std::vector<double> weights;
  for (const Choice& choice : plan.mix) weights.push_back(choice.weight);
  made.choice = std::discrete_distribution<size_t>(weights.begin(), weights.end())(random);
  made.prompt_tokens = plan.prompt.Draw(random, LongestPrompt(plan));
  const uint32_t output = plan.output.Draw(random, plan.context - made.prompt_tokens);
  auto* ids = made.request.mutable_input()->mutable_tokens()->mutable_ids();
  ids->Reserve(static_cast<int>(made.prompt_tokens));
  std::uniform_int_distribution<size_t> token(0, plan.tokens.size() - 1);
  for (uint32_t i = 0; i < made.prompt_tokens; ++i) ids->Add(plan.tokens[token(random)]);
  *made.request.mutable_cache() = plan.mix[made.choice].cache;
  *made.request.mutable_sampling() = plan.sampling;
  made.request.mutable_sampling()->set_seed(random());
  made.request.set_max_tokens(output);
  made.request.set_ignore_eos(!plan.stop_at_eos);
  made.request.set_label(plan.label);
  return made;
}

absl::Status CheckLengths(const RequestPlan& plan) {
  const uint64_t prompt = plan.prompt.most().value_or(1);
  const uint64_t output = plan.output.most().value_or(1);
  if (prompt + output <= plan.context) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(prompt, " tokens of a prompt and ", output,
                   " of its output are more than the model's context of ", plan.context));
}

absl::StatusOr<std::vector<uint32_t>> FindPlainTokens(client::Client& client,
                                                      const folio::v1::GetModelResponse& model,
                                                      const client::CallOptions& options) {
  const uint32_t vocab = model.vocab_size();
  const uint32_t width = std::clamp(vocab / kRanges + 1, 1U, std::max(model.context_length(), 1U));
  std::vector<uint32_t> plain;
  for (uint32_t first = 0; first < vocab; first += width) {
    std::vector<uint32_t> range(std::min(width, vocab - first));
    std::iota(range.begin(), range.end(), first);
    const auto whole = client.Detokenize(range, /*skip_special=*/false, options);
    if (!whole.ok()) return whole.status();
    const auto text = client.Detokenize(range, /*skip_special=*/true, options);
    if (!text.ok()) return text.status();
    if (*whole == *text) plain.insert(plain.end(), range.begin(), range.end());
  }
  if (plain.empty()) {
    plain.resize(vocab);
    std::iota(plain.begin(), plain.end(), 0U);
  }
  std::erase_if(plain, [&](uint32_t id) { return absl::c_linear_search(model.eos_tokens(), id); });
  if (!plain.empty()) return plain;
  return absl::FailedPreconditionError("the model's vocabulary has no token for a prompt");
}

}  // namespace folio::load
