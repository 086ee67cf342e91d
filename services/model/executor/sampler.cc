#include "services/model/executor/sampler.h"

#include <algorithm>
#include <cmath>

#include "services/base/check.h"

namespace folio::model {
namespace {

struct Candidate {
  uint32_t id;
  float logit;
  double weight;  // probability before normalisation; the best token's is 1
};

// Most likely first; the lower id on ties.
bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}
// For std heaps, whose front is the largest.
bool LessLikely(const Candidate& a, const Candidate& b) { return Likelier(b, a); }

// Between the filters candidates are in the order of their ids, so that sums have one order.
void SortById(std::vector<Candidate>& candidates) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
}

// Keeps the k most likely.
void KeepTopK(std::vector<Candidate>& candidates, size_t k) {
  if (candidates.size() <= k) return;
  std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(k),
                   candidates.end(), Likelier);
  candidates.erase(candidates.begin() + static_cast<ptrdiff_t>(k), candidates.end());
  SortById(candidates);
}

double TotalWeight(const std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += c.weight;
  return sum;
}

// Keeps the shortest most-likely-first list that holds `p` of the weight. A heap, because the list
// is mostly a small part of the vocabulary.
void KeepTopP(std::vector<Candidate>& candidates, double p) {
  const double wanted = p * TotalWeight(candidates);
  std::make_heap(candidates.begin(), candidates.end(), LessLikely);
  double held = 0;
  auto end = candidates.end();
  while (end != candidates.begin()) {
    held += candidates.front().weight;
    std::pop_heap(candidates.begin(), end, LessLikely);
    --end;
    if (held >= wanted) break;
  }
  candidates.erase(candidates.begin(), end);
  SortById(candidates);
}

TokenId Draw(const std::vector<Candidate>& candidates, double uniform) {
  const double point = uniform * TotalWeight(candidates);
  double sum = 0;
  uint32_t last = candidates.front().id;
  for (const Candidate& c : candidates) {
    if (c.weight == 0) continue;
    sum += c.weight;
    last = c.id;
    if (point < sum) break;
  }
  return TokenId(last);
}

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53;
  constexpr uint64_t kMultiplier1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = kMultiplier0 * counter[0];
    const uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

double UniformAt(uint64_t seed, Position position) {
  const auto bits = Philox4x32({position.value(), 0, 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t word = (uint64_t{bits[0]} << 32) | bits[1];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

TokenId Argmax(absl::Span<const float> logits) {
  FOLIO_CHECK(!logits.empty());
  return TokenId(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TokenId Sample(absl::Span<const float> logits, const SamplingRecord& sampling, Position position) {
  const TokenId best = Argmax(logits);
  if (sampling.temperature <= 0 || sampling.top_k == 1) return best;
  const double inverse = 1.0 / sampling.temperature;
  const double max = logits[best.value()];
  // exp((logit - max) / temperature) >= min_p, in terms of the logit. Nothing below double's
  // smallest exponential can be drawn.
  constexpr double kSmallest = -745;
  const double lowest =
      sampling.min_p > 0 ? std::clamp(std::log(double{sampling.min_p}), kSmallest, 0.0) : kSmallest;
  std::vector<Candidate> candidates;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    const double exponent = (logits[id] - max) * inverse;
    if (exponent < lowest) continue;
    candidates.push_back({id, logits[id], std::exp(exponent)});
  }
  if (sampling.top_k > 0) KeepTopK(candidates, sampling.top_k);
  if (sampling.top_p < 1) KeepTopP(candidates, sampling.top_p);
  return Draw(candidates, UniformAt(sampling.seed, position));
}

double LogSumExp(absl::Span<const float> logits) {
  const double max = logits[Argmax(logits).value()];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - max);
  return max + std::log(sum);
}

std::vector<std::pair<TokenId, float>> TopLogprobs(absl::Span<const float> logits, double log_sum,
                                                   int n) {
  std::vector<Candidate> best;  // a heap of at most n, the least likely in front
  for (uint32_t id = 0; id < logits.size() && n > 0; ++id) {
    const Candidate candidate = {id, logits[id], 0};
    if (best.size() == static_cast<size_t>(n)) {
      if (!Likelier(candidate, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), Likelier);
      best.pop_back();
    }
    best.push_back(candidate);
    std::push_heap(best.begin(), best.end(), Likelier);
  }
  std::sort(best.begin(), best.end(), Likelier);
  std::vector<std::pair<TokenId, float>> top;
  top.reserve(best.size());
  for (const Candidate& c : best) {
    top.emplace_back(TokenId(c.id), static_cast<float>(c.logit - log_sum));
  }
  return top;
}

}  // namespace folio::model
