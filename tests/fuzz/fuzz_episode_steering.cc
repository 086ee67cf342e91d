// An operator's orders in an episode.
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
  switch (Pick(8)) {
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

}  // namespace folio::cache
