// An operator's orders in an episode.
#include <algorithm>

#include "services/cache/steering.h"
#include "tests/fuzz/fuzz_episode.h"
#include "tests/fuzz/model_steering.h"

namespace folio::cache {

std::string Episode::Steer() {
  const bool known = !model_.sequences.empty() && !OneIn(20);
  const SequenceId id = known ? AnySequence() : SequenceId(Pick(2000));
  const bool open = model_.sequences.contains(id);
  Steering steering(*harness_.coordinator);
  ModelSteering model(model_);
  switch (Pick(12)) {
    case 0: {
      const auto closed = steering.Close(id, "wanted");
      const auto expected = open ? absl::StatusCode::kOk : absl::StatusCode::kNotFound;
      std::string wrong = Expect(expected, closed.status(), "Steering::Close");
      if (!wrong.empty() || !closed.ok()) return wrong;
      ++coverage_.ordered_closes;
      model.DidClose(id);
      return "";
    }
    case 1:
    case 2: {
      const absl::StatusCode expected = model.ExpectPin(id);
      const auto pinned = steering.Pin(id);
      std::string wrong = Expect(expected, pinned.status(), "Steering::Pin");
      if (!wrong.empty() || !pinned.ok()) return wrong;
      ++coverage_.pins;
      model.DidPin(id);
      return "";
    }
    case 3: {
      const auto unpinned = steering.Unpin(id);
      const auto expected = open ? absl::StatusCode::kOk : absl::StatusCode::kNotFound;
      if (open) model_.sequences.at(id).pinned = false;
      return Expect(expected, unpinned.status(), "Steering::Unpin");
    }
    case 4:
    case 5:
    case 6:
    case 7:
      return LowerBudget(id);
    default: {
      const absl::StatusCode expected = model.ExpectPark(id);
      const auto parked = steering.Park(id);
      std::string wrong = Expect(expected, parked.status(), "Steering::Park");
      if (!wrong.empty() || !parked.ok()) return wrong;
      ++coverage_.ordered_parks;
      ModelSequence& s = model_.sequences.at(id);
      if (!s.asked_back) s.park_order = true;
      return "";
    }
  }
}

std::string Episode::LowerBudget(SequenceId id) {
  for (const auto& [other, s] : model_.sequences) {
    if (s.evicts() && s.logical > s.prompt && OneIn(2)) id = other;
  }
  const auto it = model_.sequences.find(id);
  uint64_t budget = OneIn(20) ? UINT32_MAX - Pick(2) : Pick(16 * page_tokens_);
  if (it != model_.sequences.end() && !OneIn(4)) {
    budget = std::max<uint64_t>(it->second.budget(0), 2) / 2;
    budget += Pick(static_cast<uint32_t>(budget));
  }
  ModelSteering model(model_);
  const absl::StatusCode expected = model.ExpectLower(id, budget);
  const auto lowered =
      Steering(*harness_.coordinator).LowerBudget(id, TokenCount(static_cast<uint32_t>(budget)));
  std::string wrong = Expect(expected, lowered.status(), "Steering::LowerBudget");
  if (!wrong.empty() || !lowered.ok()) return wrong;
  ++coverage_.lowered;
  const ModelSequence& s = it->second;
  coverage_.lowered_away += s.orphaned.has_value() || s.parked ? 1 : 0;
  coverage_.lowered_beside_a_plan += s.plan.has_value() ? 1 : 0;
  return model.DidLower(id, budget, *lowered);
}

}  // namespace folio::cache
