// The model's lost workers, and the sequences that outlive them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {

void CacheModel::LosePages(ModelSequence& s, bool quiesced) {
  for (ModelLayer& layer : s.layers) {
    for (PageRef ref : layer.pages) {
      Page& page = pages_[ref.page.value()];
      page.state = quiesced ? PageState::kFree : PageState::kQuarantined;
      page.writer = s.worker;
    }
    layer = {};
  }
  if (!quiesced && !s.slots.empty()) quarantined_slots_[s.worker] += s.slots.size();
  s.Forget();
  s.starved = s.asked_back = s.told = s.park_order = false;
  s.parked = true;
}

void CacheModel::End(SequenceId id, bool quiesced) {
  LosePages(sequences.at(id), quiesced);
  sequences.erase(id);
}

void CacheModel::Fence(WorkerId worker, bool quiesced) {
  const auto it = workers.find(worker);
  if (it == workers.end()) return;
  it->second = WorkerState::kFenced;
  line_.LeaveAll(worker);
  std::vector<SequenceId> ended;
  for (auto& [id, s] : sequences) {
    if (s.worker != worker || s.orphaned.has_value()) continue;
    const bool kept = orphan_seconds_ > 0 && !s.token.empty() && !s.close_order;
    if (kept && s.claims_in_vain < 2) {
      // Tokens that may have been moved are of no use.
      if (s.plan.has_value() && s.plan->compact) LosePages(s, quiesced);
      s.orphaned = now_;
      s.starved = s.asked_back = s.told = s.park_order = false;
    } else {
      if (kept) given_up.push_back(id);
      regained += kept && s.regained ? 1 : 0;
      ended.push_back(id);
    }
  }
  for (const SequenceId id : ended) End(id, quiesced);
  if (!quiesced) return;
  for (auto& [id, s] : sequences) {
    if (s.worker != worker || !s.orphaned.has_value()) continue;
    s.claimable = now_;
    if (s.swap == SwapUse::kIn) SwapOut(s);
  }
  quarantined_slots_.erase(worker);
  for (Page& page : pages_) {
    if (page.state == PageState::kQuarantined && page.writer == worker) {
      page.state = PageState::kFree;
    }
  }
  workers.erase(it);
}

void CacheModel::Restart(bool has_contents) {
  line_ = {};
  shortage_ = false;
  in_flight.clear();
  if (!has_contents) {
    workers.clear();
    quarantined_slots_.clear();
    for (Page& page : pages_) page.state = PageState::kFree;
  }
  for (auto& [id, state] : workers) state = WorkerState::kFenced;
  std::vector<SequenceId> ended;
  for (auto& [id, s] : sequences) {
    const bool gone = !workers.contains(s.worker);
    if (!has_contents || (s.plan.has_value() && s.plan->compact)) LosePages(s, gone);
    if (orphan_seconds_ == 0 || s.token.empty() || s.close_order) ended.push_back(id);
    s.orphaned = now_;
    s.claimable = gone ? std::optional(now_) : std::nullopt;
    s.claims_in_vain = std::min(s.claims_in_vain, 1U);
    s.starved = s.asked_back = s.told = s.park_order = false;
    if (gone && s.swap == SwapUse::kIn) SwapOut(s);
  }
  for (const SequenceId id : ended) End(id, !workers.contains(sequences.at(id).worker));
  for (Page& page : pages_) {
    if (page.state == PageState::kFree) page.generation = 0;
  }
}

bool CacheModel::HasOrphans() const {
  return std::any_of(sequences.begin(), sequences.end(),
                     [](const auto& one) { return one.second.orphaned.has_value(); });
}

std::vector<SequenceId> CacheModel::EndExpiredOrphans() {
  std::vector<SequenceId> ended;
  for (const auto& [id, s] : sequences) {
    if (s.orphaned.has_value() && now_ - *s.orphaned >= orphan_seconds_) ended.push_back(id);
  }
  for (const SequenceId id : ended) End(id, !workers.contains(sequences.at(id).worker));
  return ended;
}

absl::StatusCode CacheModel::ExpectClaim(const ClaimRequest& request) const {
  const auto worker = workers.find(request.worker);
  if (worker == workers.end()) return absl::StatusCode::kNotFound;
  if (worker->second == WorkerState::kFenced) return absl::StatusCode::kFailedPrecondition;
  const auto it = sequences.find(request.sequence);
  if (it == sequences.end()) {
    const bool vain = std::ranges::find(given_up, request.sequence) != given_up.end();
    return vain ? absl::StatusCode::kAborted : absl::StatusCode::kNotFound;
  }
  const ModelSequence& s = it->second;
  const bool stranger = request.tenant.has_value() && *request.tenant != s.tenant;
  if (stranger || s.token.empty() || s.token != request.resume_token) {
    return absl::StatusCode::kPermissionDenied;
  }
  const bool again = s.swap == SwapUse::kOut && !request.abilities.swaps;
  const bool compacts = s.streams() && (!s.compacted || again);
  if (s.orphaned.has_value() && compacts && !request.abilities.streams) {
    return absl::StatusCode::kFailedPrecondition;
  }
  const bool ready = s.orphaned.has_value() && (s.parked || !workers.contains(s.worker));
  if (!ready) return absl::StatusCode::kUnavailable;
  std::vector<SequenceId> ended;
  if (s.IsWider(request.abilities)) {
    CacheModel then = *this;
    const bool fits = then.Widen(then.sequences.at(request.sequence), request.abilities);
    return fits ? then.ExpectClaim(request) : absl::StatusCode::kResourceExhausted;
  }
  ModelSequence wants = s;
  if (s.swap == SwapUse::kOut && !request.abilities.swaps) wants.Forget();
  const bool room = !s.parked || Admits(wants, {request.worker, request.sequence}, &ended);
  return room ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted;
}

std::string CacheModel::CompareClaim(const ModelSequence& s, const Claimed& claimed) const {
  if (claimed.lease_epoch != s.lease || claimed.logical_length.value() != s.logical ||
      claimed.tokens.size() != s.known || claimed.prompt_tokens.value() != s.prompt ||
      claimed.max_new_tokens.value() != s.max_new) {
    return "a claim gives another record";
  }
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    if (claimed.cache.layer_budget(layer).value() != s.first_budget(layer)) {
      return "a claim gives other budgets for the prompt";
    }
  }
  if (claimed.plan.has_value() != s.plan.has_value()) return "a claim forgets a plan";
  if (s.plan.has_value()) {
    const auto* drop = std::get_if<DropAction>(&claimed.plan->action);
    if (drop == nullptr || claimed.plan->epoch.value() != s.plan->epoch) {
      return "a claim gives another plan";
    }
    for (size_t layer = 0; layer < s.layers.size(); ++layer) {
      const std::optional<BlockIndex> block = drop->block.at(layer);
      const std::optional<uint32_t>& own = s.plan->drop[layer];
      if (block.has_value() != own.has_value() || (own.has_value() && block->value() != *own)) {
        return "a claim gives another plan";
      }
    }
  }
  const std::string wrong = CompareLayers(s, claimed.layers);
  return wrong.empty() ? "" : absl::StrCat("a claim: ", wrong);
}

// A prompt is computed again if such a worker may need more pages for it than it was promised.
// False if an empty pool would have too few.
bool CacheModel::Widen(ModelSequence& s, const WorkerAbilities& abilities) {
  if (!s.IsWider(abilities)) return true;
  ModelSequence wider = s;
  wider.ahead = abilities.prefill_ahead.value();
  wider.cache = wider.first_cache;
  wider.fall = {};
  if (WorstCase(wider) > pages_.size()) return false;
  s.ahead = wider.ahead;
  if (!s.parked && s.in_prompt(geometry_)) LosePages(s, /*quiesced=*/true);
  return true;
}

std::string CacheModel::DidClaim(const ClaimRequest& request, const Claimed& claimed) {
  ModelSequence& s = sequences.at(request.sequence);
  if (!Widen(s, request.abilities)) return "a claim that never fits";
  uint64_t promised = Promised(s);
  if (s.swap == SwapUse::kOut && !request.abilities.swaps) s.Forget();
  if (s.swap == SwapUse::kOffered) s.NoSlots();
  if (s.parked) {
    std::vector<SequenceId> ended;
    Admits(s, {request.worker, request.sequence}, &ended);
    if (claimed.ended != ended) return "other orphans made room for a claim";
    EndAll(ended);
    line_.Leave({request.worker, request.sequence});
    promised = ToPromise(s);
    s.parked = false;
    if (s.swap == SwapUse::kOut) s.swap = SwapUse::kIn;
  }
  s.worker = request.worker;
  s.abilities = request.abilities;
  s.orphaned.reset();
  s.claimable.reset();
  ++s.claims_in_vain;
  ++s.lease;
  // The claim names all pages, those that this worker was granted at the end.
  LayerPageLists granted(s.layers.size());
  bool any = false;
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    const PageList& all = claimed.layers.at(layer).pages;
    if (all.size() < s.layers[layer].pages.size()) return "a claim forgets pages";
    granted[layer].assign(all.begin() + static_cast<ptrdiff_t>(s.layers[layer].pages.size()),
                          all.end());
    any |= !granted[layer].empty();
  }
  std::string wrong = TakeGrant(s, any ? granted : LayerPageLists(), promised);
  return wrong.empty() ? CompareClaim(s, claimed) : wrong;
}

}  // namespace folio::cache
