// The model's rules of admission: promises, grants, and the line.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"
#include "tests/fuzz/model_budgets.h"
#include "tests/fuzz/model_shares.h"

namespace folio::cache {
namespace {

// Tokens of the budget that KVCrush gives to others than the highest.
uint64_t Represented(const ModelSequence& s, uint64_t budget) {
  const auto* crush = std::get_if<policy::KvCrushSpec>(&s.cache.policy.spec());
  if (crush == nullptr) return 0;
  return static_cast<uint64_t>(double{crush->options.share} * static_cast<double>(budget));
}

// Its scores do not come from the prompt's end, and it evicts.
bool CanStream(const policy::CacheConfig& cache) {
  const policy::PolicySpec& spec = cache.policy.spec();
  const auto* crush = std::get_if<policy::KvCrushSpec>(&spec);
  const bool snap = std::holds_alternative<policy::SnapKvSpec>(spec) ||
                    (crush != nullptr && std::holds_alternative<policy::SnapKvSpec>(crush->base));
  return !snap && !std::holds_alternative<policy::FullSpec>(spec);
}

}  // namespace

uint64_t CacheModel::Promised(const ModelSequence& s) const { return s.parked ? 0 : ToPromise(s); }

uint64_t CacheModel::ToPromise(const ModelSequence& s) const {
  if (s.optimistic && !s.in_prompt(geometry_)) return s.swap == SwapUse::kOut ? Lacking(s) : 0;
  uint64_t promised = 0;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const ModelLayer& layer = s.layers[i];
    const bool compacts = s.must_compact(i) && !s.windowed[i];
    uint64_t most = s.optimistic || compacts ? OpenPages(s, i) : Most(s, i, layer.positions.size());
    if (s.windowed[i] && s.in_prompt(geometry_)) most = std::max(most, OpenPages(s, i));
    promised += most > layer.pages.size() ? most - layer.pages.size() : 0;
  }
  return promised;
}

uint64_t CacheModel::Lacking(const ModelSequence& s) const {
  uint64_t lacking = 0;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const uint64_t wanted = Due(s, i);
    lacking += wanted - std::min<uint64_t>(wanted, s.layers[i].pages.size());
  }
  return lacking;
}

uint64_t CacheModel::WorstCase(const ModelSequence& s) const {
  const uint64_t page = geometry_.page_tokens;
  uint64_t pages = 0;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const uint64_t most = std::max(AllowedInPrompt(s, i, page), Allowed(s, i, geometry_));
    const uint64_t all = PagesFor(s.prompt + s.max_new);
    if (s.windowed[i]) {
      pages += std::max(OpenPages(s, i), std::min(all, most / page + 2));
      continue;
    }
    const bool compacts = s.evicts() && s.prompt > s.first_budget(i);
    pages += compacts ? OpenPages(s, i) : s.evicts() ? std::min(all, most / page + 2) : all;
  }
  return pages;
}

uint64_t CacheModel::FreeOfPromises() const {
  uint64_t promised = 0;
  for (const auto& [id, other] : sequences) promised += Promised(other);
  return Count(PageState::kFree) - promised;
}

std::vector<SequenceId> CacheModel::InTheWay(uint64_t wanted) const {
  std::vector<std::pair<int64_t, SequenceId>> orphans;
  for (const auto& [id, s] : sequences) {
    if (!s.orphaned.has_value() || s.parked) continue;
    const bool waits =
        s.claimable.has_value() ? now_ < *s.claimable + grace_seconds_ : grace_seconds_ > 0;
    if (waits) continue;
    orphans.emplace_back(*s.orphaned, id);
  }
  std::sort(orphans.begin(), orphans.end());
  uint64_t room = FreeOfPromises();
  std::vector<SequenceId> ended;
  for (const auto& [since, id] : orphans) {
    if (room >= wanted) break;
    const ModelSequence& s = sequences.at(id);
    room += Promised(s);
    for (const ModelLayer& layer : s.layers) {
      if (!workers.contains(s.worker)) room += layer.pages.size();
    }
    ended.push_back(id);
  }
  if (room < wanted) ended.clear();
  return ended;
}

void CacheModel::EndAll(const std::vector<SequenceId>& orphans) {
  for (const SequenceId id : orphans) End(id, !workers.contains(sequences.at(id).worker));
}

ModelLine::Ask CacheModel::AskOf(const ModelSequence& s) const {
  const bool steps = std::any_of(sequences.begin(), sequences.end(), [&](const auto& one) {
    return one.second.worker == s.worker && one.second.runs();
  });
  return {s.due, s.tenant, now_, steps ? std::nullopt : std::optional(now_)};
}

bool CacheModel::starving() const {
  return shortage_ && std::any_of(sequences.begin(), sequences.end(),
                                  [](const auto& one) { return one.second.starved; });
}

bool CacheModel::Admits(const ModelSequence& s, const Asker& asker,
                        std::vector<SequenceId>* ended) const {
  if (starving()) return false;
  if (!line_.IsFirst(asker, AskOf(s), now_)) return false;
  uint64_t room = ToPromise(s);
  for (const auto& [id, other] : sequences) {
    const bool grows = other.runs() && other.optimistic && !other.in_prompt(geometry_);
    if (s.optimistic && grows) room += geometry_.num_layers;
  }
  if (room <= FreeOfPromises()) return true;
  *ended = InTheWay(room);
  return !ended->empty();
}

policy::Compaction CacheModel::Chosen(const OpenRequest& request) const {
  if (request.cache.compaction != policy::Compaction::kAutomatic) return request.cache.compaction;
  OpenRequest whole = request;
  whole.cache.compaction = policy::Compaction::kWhole;
  const bool fits = WorstCase(Opening(whole)) <= pages_.size();
  const bool can = request.abilities.streams && CanStream(request.cache);
  return fits || !can ? policy::Compaction::kWhole : policy::Compaction::kStreamed;
}

ModelSequence CacheModel::Opening(const OpenRequest& request) const {
  ModelSequence s;
  s.worker = request.worker;
  s.token = request.metadata.resume_token;
  s.cache = request.cache;
  s.cache.compaction = Chosen(request);
  s.first_cache = s.cache;
  s.prompt = request.prompt.size();
  s.max_new = request.max_new_tokens.value();
  s.optimistic = admission_ == Admission::kOptimistic && request.abilities.parks;
  s.abilities = request.abilities;
  s.priority = request.urgency.priority;
  s.arrived = SteadyTime(absl::Seconds(now_)) - request.urgency.waited;
  s.due = s.arrived + absl::Seconds(10) * s.priority;
  s.tenant = request.tenant;
  s.parked = true;
  s.known = s.prompt;
  s.layers.resize(geometry_.num_layers);
  s.window = geometry_.windows.tokens();
  s.stride = geometry_.windows.stride();
  s.ahead = s.abilities.prefill_ahead.value();
  for (uint32_t layer = 0; layer < geometry_.num_layers; ++layer) {
    s.windowed.push_back(geometry_.windows.contains(layer));
  }
  return s;
}

absl::StatusCode CacheModel::ExpectOpen(const OpenRequest& request) const {
  const auto worker = workers.find(request.worker);
  if (worker == workers.end()) return absl::StatusCode::kNotFound;
  if (worker->second == WorkerState::kFenced) return absl::StatusCode::kFailedPrecondition;
  ModelSequence s;
  s.cache = request.cache;
  s.prompt = request.prompt.size();
  s.max_new = request.max_new_tokens.value();
  const uint64_t page = geometry_.page_tokens;
  const uint64_t sink = s.cache.sink.value();
  const auto* crush = std::get_if<policy::KvCrushSpec>(&s.cache.policy.spec());
  const auto* snap = crush != nullptr ? std::get_if<policy::SnapKvSpec>(&crush->base)
                                      : std::get_if<policy::SnapKvSpec>(&s.cache.policy.spec());
  const auto* diff = std::get_if<policy::QueryDiffSpec>(&s.cache.policy.spec());
  const uint32_t window = snap != nullptr   ? snap->window
                          : diff != nullptr ? diff->options.window
                                            : 0;
  const float represented = crush != nullptr ? crush->options.share : 0;
  const size_t listed = s.cache.layer_budgets.size();
  bool budget_fits = listed == 0 || (s.evicts() && listed == geometry_.num_layers);
  for (size_t layer = 0; budget_fits && layer < geometry_.num_layers; ++layer) {
    const uint64_t budget = s.budget(layer);
    budget_fits = s.evicts() ? budget > 0 && budget % page == 0 &&
                                   Protected(s, budget, window, geometry_.page_tokens) +
                                           Represented(s, budget) <=
                                       budget
                             : budget == 0;
  }
  if (!budget_fits || !TakesShares(s, represented) || sink % page != 0 ||
      s.cache.recent.value() % page != 0 || s.prompt == 0 || s.prompt + s.max_new > UINT32_MAX) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (s.cache.layers == policy::Layers::kShared && geometry_.windows.any()) {
    return absl::StatusCode::kInvalidArgument;
  }
  const uint64_t stride = s.cache.compaction_stride.value();
  const bool streamed = s.cache.compaction == policy::Compaction::kStreamed;
  const bool stride_matters =
      streamed || (s.cache.compaction == policy::Compaction::kAutomatic && CanStream(s.cache));
  if ((streamed && !CanStream(s.cache)) ||
      (stride_matters && (stride == 0 || stride % page != 0))) {
    return absl::StatusCode::kInvalidArgument;
  }
  if (streamed && !request.abilities.streams) return absl::StatusCode::kFailedPrecondition;
  std::vector<SequenceId> ended;
  const ModelSequence opening = Opening(request);
  const bool fits = WorstCase(opening) <= pages_.size() &&
                    Admits(opening, {request.worker, std::nullopt}, &ended);
  return fits ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted;
}

std::string CacheModel::DidOpen(const OpenRequest& request, const Opened& opened) {
  ModelSequence s = Opening(request);
  std::vector<SequenceId> ended;
  Admits(s, {request.worker, std::nullopt}, &ended);
  if (opened.cache.compaction != s.cache.compaction) return "another compaction was chosen";
  if (opened.ended != ended) return "other orphans made room";
  EndAll(ended);
  turns += line_.IsTurn({request.worker, std::nullopt}, AskOf(s), now_) ? 1 : 0;
  line_.Leave({request.worker, std::nullopt});
  const uint64_t promised = ToPromise(s);
  s.parked = false;
  if (opened.pages.size() != s.layers.size()) return "pages are not one list per layer";
  if (opened.sequence <= last_) {
    return "sequence ids do not grow";
  }
  if (opened.lease_epoch != LeaseEpoch(1)) return "a new sequence's lease epoch is not 1";
  last_ = opened.sequence;
  return TakeGrant(sequences[last_] = std::move(s), opened.pages, promised);
}

bool CacheModel::DidNotOpen(const OpenRequest& request) {
  const ModelSequence s = Opening(request);
  if (!request.waits_for_room || WorstCase(s) > pages_.size()) return false;
  line_.Wait({request.worker, std::nullopt}, AskOf(s));
  return true;
}

void CacheModel::DidNotUnpark(SequenceId id, WorkerId worker) {
  ModelSequence s = sequences.at(id);
  s.worker = worker;
  line_.Wait({worker, id}, AskOf(s));
}

std::string CacheModel::TakeGrant(ModelSequence& s, const LayerPageLists& granted,
                                  uint64_t promised) {
  s.ready = now_;
  std::vector<uint64_t> wanted;
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    wanted.push_back(Due(s, layer));
  }
  if (s.plan.has_value()) s.starved = false;
  bool no_pages = true;
  for (const ModelLayer& layer : s.layers) no_pages = no_pages && layer.pages.empty();
  const bool restores = s.swap == SwapUse::kIn && no_pages;
  if ((s.plan.has_value() && !restores) || s.parked || s.asked_back) {
    return granted.empty() ? "" : "pages were granted that are not due";
  }
  // What is free once all others have what they were promised.
  uint64_t available = Count(PageState::kFree);
  for (const auto& [id, other] : sequences) available -= &other == &s ? 0 : Promised(other);
  s.starved = Lacking(s) > promised && Lacking(s) > available;
  if (!s.starved) return TakePages(s, granted, wanted);
  shortage_ = true;
  return granted.empty() ? "" : "pages were granted that are promised to others";
}

}  // namespace folio::cache
