// The calls of an episode about parked sequences.
#include <vector>

#include "tests/fuzz/fuzz_episode.h"

namespace folio::cache {

WorkerAbilities Episode::RandomAbilities() {
  return {.prefill_ahead = TokenCount(OneIn(3) ? 0 : 1 + Pick(4 * page_tokens_)),
          .parks = !OneIn(6),
          .streams = !OneIn(6),
          .swaps = !OneIn(4)};
}

std::string Episode::Park() {
  if (model_.sequences.empty()) return "";
  SequenceId id = OneIn(20) ? SequenceId(Pick(2000)) : AnySequence();
  for (const auto& [other, s] : model_.sequences) {
    if (s.told && !OneIn(3)) id = other;
  }
  const auto it = model_.sequences.find(id);
  const bool told = it != model_.sequences.end() && it->second.told;
  if (!told && !OneIn(25)) return "";  // a worker seldom parks without being asked
  const bool known = it != model_.sequences.end();
  const WorkerId worker = known && !OneIn(20) ? it->second.worker : AnyWorker();
  const LeaseEpoch lease = known && !OneIn(20) ? it->second.lease : LeaseEpoch(Pick(4));
  const absl::StatusCode expected = model_.ExpectPark(worker, id, lease);
  model_.Heard(worker);
  const bool swapped = told ? !OneIn(4) : OneIn(2);
  const absl::StatusOr<bool> parked = harness_.parking().Park(worker, id, lease, swapped);
  std::string wrong = Expect(expected, parked.status(), "Park");
  if (!wrong.empty() || !parked.ok()) return wrong;
  ++coverage_.parks;
  coverage_.swaps_out += *parked ? 1 : 0;
  coverage_.swaps_with_a_plan += *parked && it->second.plan.has_value() ? 1 : 0;
  if (model_.DidPark(id, swapped) != *parked) return "Park: the contents have another fate";
  const ModelSequence& s = model_.sequences.at(id);
  if (!*parked || s.token.empty() || orphan_seconds_ == 0 || OneIn(3)) return "";
  // Its worker is lost, and the next one while it copies the contents back.
  return LoseInVain(
      {.worker = worker,
       .sequence = id,
       .resume_token = s.token,
       .abilities = {
           .prefill_ahead = TokenCount(0), .parks = true, .streams = true, .swaps = true}});
}

std::string Episode::Unpark() {
  if (model_.sequences.empty()) return "";
  SequenceId id = AnySequence();
  for (const auto& [other, s] : model_.sequences) {
    if (s.parked && OneIn(2)) id = other;
  }
  const ModelSequence& s = model_.sequences.at(id);
  const WorkerId worker = OneIn(20) ? AnyWorker() : s.worker;
  const absl::StatusCode expected = model_.ExpectUnpark(worker, id, s.lease);
  model_.Heard(worker);
  const absl::StatusOr<Unparked> unparked = harness_.parking().Unpark(worker, id, s.lease);
  std::string wrong = Expect(expected, unparked.status(), "Unpark");
  if (absl::IsResourceExhausted(unparked.status())) model_.DidNotUnpark(id, worker);
  if (!wrong.empty() || !unparked.ok()) return wrong;
  ++coverage_.unparks;
  coverage_.swaps_in += unparked->swapped.empty() ? 0 : 1;
  return model_.DidUnpark(id, *unparked);
}

std::string Episode::Attend(WorkerId worker) {
  const Attention attention = harness_.parking().Attend(worker);
  coverage_.asked_back += attention.park.size();
  coverage_.relieved += attention.granted.size();
  coverage_.offers += attention.swap.size();
  return model_.DidAttend(worker, attention);
}

}  // namespace folio::cache
