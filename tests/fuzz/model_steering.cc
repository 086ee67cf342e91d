// The model's rules of what an operator may order.
#include "tests/fuzz/model_steering.h"

#include <algorithm>

#include "tests/fuzz/model_budgets.h"

namespace folio::cache {

absl::StatusCode ModelSteering::ExpectPark(SequenceId id) const {
  const auto it = model_.sequences.find(id);
  if (it == model_.sequences.end()) return absl::StatusCode::kNotFound;
  const ModelSequence& s = it->second;
  const bool may = s.runs() && !s.close_order && !s.pinned && s.abilities.parks;
  return may ? absl::StatusCode::kOk : absl::StatusCode::kFailedPrecondition;
}

absl::StatusCode ModelSteering::ExpectPin(SequenceId id) const {
  if (!model_.sequences.contains(id)) return absl::StatusCode::kNotFound;
  uint64_t needed = 0;
  for (const auto& [other, s] : model_.sequences) {
    if (other != id && !s.pinned && s.abilities.parks) continue;
    needed += model_.WorstCase(s);
  }
  return needed <= model_.pages_.size() ? absl::StatusCode::kOk
                                        : absl::StatusCode::kResourceExhausted;
}

absl::StatusCode ModelSteering::ExpectLower(SequenceId id, uint64_t budget) const {
  const auto it = model_.sequences.find(id);
  if (it == model_.sequences.end()) return absl::StatusCode::kNotFound;
  const ModelSequence& s = it->second;
  const bool computes_prompt = !s.parked && s.in_prompt(model_.geometry_);
  if (s.close_order || !s.evicts() || computes_prompt) return absl::StatusCode::kFailedPrecondition;
  const uint32_t page = model_.geometry_.page_tokens;
  uint64_t largest = 0;
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    largest = std::max(largest, s.budget(layer));
  }
  const uint64_t rounded = (budget + page - 1) / page * page;
  const policy::PolicyTraits& traits = s.cache.policy->traits();
  const uint64_t least =
      LeastBudget(s, traits.own_recent.value(), traits.representative_share, page);
  return rounded < least || rounded >= largest ? absl::StatusCode::kInvalidArgument
                                               : absl::StatusCode::kOk;
}

std::string ModelSteering::DidLower(SequenceId id, uint64_t budget, const LoweredBudget& lowered) {
  ModelSequence& s = model_.sequences.at(id);
  const uint64_t page = model_.geometry_.page_tokens;
  const TokenCount rounded(static_cast<uint32_t>((budget + page - 1) / page * page));
  std::vector<uint64_t> before;
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    before.push_back(Allowed(s, layer, model_.geometry_));
  }
  s.cache.budget = std::min(s.cache.budget, rounded);
  for (TokenCount& one : s.cache.layer_budgets) one = std::min(one, rounded);
  s.fall = {};
  if (s.in_prompt(model_.geometry_)) return lowered.over == PageCount(0) ? "" : "pages are to go";
  BeginFall(s, model_.geometry_);
  uint64_t over = 0;
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    const uint64_t full = FullTokens(s.layers[layer], page);
    if (!s.windowed[layer]) over += full > s.budget(layer) ? (full - s.budget(layer)) / page : 0;
    if (s.fall.active()) s.fall.held[layer] = std::min(full, before[layer]);
  }
  return lowered.over.value() == over ? "" : "another number of pages is to go";
}

void ModelSteering::DidClose(SequenceId id) {
  ModelSequence& s = model_.sequences.at(id);
  if (!s.orphaned.has_value()) {
    s.close_order = true;
    return;
  }
  model_.line_.Leave({s.worker, id});
  model_.End(id, !model_.workers.contains(s.worker));
}

void ModelSteering::DidPin(SequenceId id) {
  ModelSequence& s = model_.sequences.at(id);
  s.pinned = true;
  s.park_order = false;
  if (s.asked_back && !s.told) {
    s.asked_back = false;
    s.starved = !s.plan.has_value() && model_.Lacking(s) > 0;
  }
  model_.shortage_ |= s.starved;
}

std::string ModelSteering::Take(WorkerId worker, const Attention& attention,
                                std::vector<SequenceId>* park, size_t* offers) {
  size_t closed = 0;
  for (auto& [id, s] : model_.sequences) {
    if (s.worker != worker || s.orphaned.has_value()) continue;
    if (s.close_order && !s.told_to_close) {
      const bool told = closed < attention.close.size() && attention.close[closed].sequence == id;
      if (!told) return "a worker does not hear that a sequence is to end";
      ++closed;
    }
    const bool parks = s.park_order && !s.told && !s.close_order;
    s.park_order = false;
    s.told_to_close = s.close_order;
    if (!parks) continue;
    s.asked_back = s.told = true;
    park->push_back(id);
    std::string wrong = model_.TakeOffer(id, attention.swap, offers);
    if (!wrong.empty()) return wrong;
  }
  return closed == attention.close.size() ? "" : "a sequence is to end that nobody has ended";
}

}  // namespace folio::cache
