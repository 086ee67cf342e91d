// The model's rules of what an operator may order.
#include "tests/fuzz/model_steering.h"

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
    ModelSequence from_the_start = s;
    from_the_start.Forget();
    needed += model_.WorstCase(from_the_start);
  }
  return needed <= model_.pages_.size() ? absl::StatusCode::kOk
                                        : absl::StatusCode::kResourceExhausted;
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
