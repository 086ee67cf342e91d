// The model's rules of parked sequences, and of a pool that runs dry.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"
#include "tests/fuzz/model_steering.h"

namespace folio::cache {

absl::StatusCode CacheModel::ExpectPark(WorkerId worker, SequenceId id, LeaseEpoch lease) const {
  return ExpectHeld(worker, id, lease);
}

absl::StatusCode CacheModel::ExpectUnpark(WorkerId worker, SequenceId id, LeaseEpoch lease) const {
  const absl::StatusCode held = ExpectHeld(worker, id, lease);
  if (held != absl::StatusCode::kOk) return held;
  if (!sequences.at(id).parked) return absl::StatusCode::kFailedPrecondition;
  std::vector<SequenceId> ended;
  return Admits(sequences.at(id), {worker, id}, &ended) ? absl::StatusCode::kOk
                                                        : absl::StatusCode::kResourceExhausted;
}

bool CacheModel::DidPark(SequenceId id, bool swapped) {
  ModelSequence& s = sequences.at(id);
  if (s.parked) return s.swap == SwapUse::kOut;
  const bool keeps = swapped && s.swap == SwapUse::kOffered && !s.in_prompt(geometry_);
  if (keeps) {
    SwapOut(s);
  } else {
    LosePages(s, /*quiesced=*/true);
  }
  return keeps;
}

std::string CacheModel::DidUnpark(SequenceId id, const Unparked& unparked) {
  ModelSequence& s = sequences.at(id);
  std::vector<SequenceId> ended;
  Admits(s, {s.worker, id}, &ended);
  if (unparked.ended != ended) return "other orphans made room for a parked sequence";
  EndAll(ended);
  line_.Leave({s.worker, id});
  const uint64_t promised = ToPromise(s);
  s.parked = false;
  if (s.swap == SwapUse::kOut) s.swap = SwapUse::kIn;
  std::string wrong = TakeGrant(s, unparked.pages, promised);
  return wrong.empty() ? CompareSwap(s, unparked) : wrong;
}

void CacheModel::Relieve(std::vector<SequenceId>* ended) {
  uint64_t lacking = 0;
  uint64_t coming = FreeOfPromises();
  const auto gives = [&](const ModelSequence& s) {
    uint64_t pages = Promised(s);
    for (const ModelLayer& layer : s.layers) pages += layer.pages.size();
    return pages;
  };
  const auto unpromised = [&](const ModelSequence& s) {
    return Lacking(s) - std::min(Lacking(s), Promised(s));
  };
  for (const auto& [id, s] : sequences) {
    if (s.asked_back) coming += gives(s);
    if (s.starved && !s.asked_back) lacking += unpromised(s);
  }
  if (lacking <= coming) return;
  *ended = InTheWay(FreeOfPromises() + lacking - coming);
  EndAll(*ended);
  if (!ended->empty()) return;
  while (lacking > coming) {
    std::vector<std::tuple<int32_t, SteadyTime, SequenceId>> candidates;
    size_t running = 0;
    for (const auto& [id, s] : sequences) {
      if (!s.runs() || s.asked_back || !s.abilities.parks) continue;
      ++running;
      if (!s.pinned) candidates.emplace_back(s.priority, s.arrived, id);
    }
    if (running < 2 || candidates.empty()) return;
    ModelSequence& victim =
        sequences.at(std::get<2>(*std::max_element(candidates.begin(), candidates.end())));
    victim.asked_back = true;
    coming += gives(victim);
    if (victim.starved) lacking -= unpromised(victim);
  }
}

std::string CacheModel::DidAttend(WorkerId worker, const Attention& attention) {
  std::vector<SequenceId> park;
  size_t offers = 0;
  if (std::string wrong = ModelSteering(*this).Take(worker, attention, &park, &offers);
      !wrong.empty()) {
    return wrong;
  }
  if (const auto told = in_flight.find(worker);
      told != in_flight.end() && (starving() || line_.Waits(now_))) {
    for (auto& [id, s] : sequences) {
      const bool decodes = s.worker == worker && s.runs() && !s.in_prompt(geometry_) && !s.starved;
      const bool kept =
          s.asked_back || s.pinned || !s.abilities.parks || s.plan || s.swap == SwapUse::kIn;
      if (!decodes || kept || now_ - told->second < s.ready + 2) continue;
      s.asked_back = s.told = true;
      ++idle;
      park.push_back(id);
      const std::string wrong = TakeOffer(id, attention.swap, &offers);
      if (!wrong.empty()) return wrong;
    }
  }
  if (!shortage_) {
    const bool quiet = attention.granted.empty() && attention.ended.empty() &&
                       attention.park == park && attention.swap.size() == offers;
    return quiet ? "" : "a worker was told something without a shortage";
  }
  std::vector<std::tuple<int32_t, SteadyTime, SequenceId>> starved;
  for (const auto& [id, s] : sequences) {
    if (s.worker == worker && s.starved && s.runs() && !s.asked_back) {
      starved.emplace_back(s.priority, s.arrived, id);
    }
  }
  std::sort(starved.begin(), starved.end());
  size_t given = 0;
  for (const auto& [priority, arrived, id] : starved) {
    const bool next = given < attention.granted.size() && attention.granted[given].sequence == id;
    std::string wrong =
        TakeGrant(sequences.at(id), next ? attention.granted[given].pages : LayerPageLists(),
                  Promised(sequences.at(id)));
    if (!wrong.empty()) return absl::StrCat("attention: ", wrong);
    if (!next) break;
    ++given;
  }
  if (given != attention.granted.size()) return "pages for a sequence that is not next";
  const bool starving = this->starving();
  std::vector<SequenceId> ended;
  if (starving) Relieve(&ended);
  if (ended != attention.ended) return "other orphans made room for starved sequences";
  for (auto& [id, s] : sequences) {
    if (!s.asked_back || s.told) continue;
    if (!starving) {
      s.asked_back = false;
      s.starved = !s.plan.has_value() && Lacking(s) > 0;
    } else if (s.worker == worker) {
      s.told = true;
      park.push_back(id);
      const std::string wrong = TakeOffer(id, attention.swap, &offers);
      if (!wrong.empty()) return wrong;
    }
  }
  shortage_ = this->starving();
  if (offers != attention.swap.size()) return "slots for a sequence that is not to be parked";
  return park == attention.park ? "" : "other sequences were asked back";
}

}  // namespace folio::cache
