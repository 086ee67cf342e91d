#include "tests/fuzz/cache_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::cache {
namespace {

constexpr auto kOk = absl::StatusCode::kOk;
constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

// Tokens of the budget that KVCrush gives to others than the highest.
uint64_t Represented(const ModelSequence& s, uint64_t budget) {
  const auto* crush = std::get_if<policy::KvCrushSpec>(&s.cache.policy.spec());
  if (crush == nullptr) return 0;
  return static_cast<uint64_t>(double{crush->options.share} * static_cast<double>(budget));
}

}  // namespace

CacheModel::CacheModel(const CacheGeometry& geometry, uint32_t pages,
                       const std::vector<float>* board, int64_t orphan_seconds)
    : geometry_(geometry), board_(board), orphan_seconds_(orphan_seconds), pages_(pages) {}

uint64_t CacheModel::PagesFor(uint64_t tokens) const {
  return (tokens + geometry_.page_tokens - 1) / geometry_.page_tokens;
}

// Pages per layer that a prompt is opened with.
uint64_t CacheModel::OpenPages(const ModelSequence& s) const {
  return std::min(PagesFor(s.prompt) + 1, PagesFor(s.prompt + s.max_new));
}

// Pages per layer that the rest of the life can fill, within the budget and two.
uint64_t CacheModel::Most(const ModelSequence& s, size_t layer, uint64_t resident) const {
  const uint64_t rest = PagesFor(resident + s.prompt + s.max_new - s.logical);
  const uint64_t cap = s.budget(layer) / geometry_.page_tokens + 2;
  return s.evicts() ? std::min(rest, cap) : rest;
}

// Pages that a layer should have in decode: the newest and one ahead.
uint64_t CacheModel::Wanted(const ModelSequence& s, size_t layer, uint64_t resident) const {
  return std::min(resident / geometry_.page_tokens + 2, Most(s, layer, resident));
}

uint64_t CacheModel::Promised(const ModelSequence& s) const {
  uint64_t promised = 0;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const ModelLayer& layer = s.layers[i];
    const uint64_t most = s.must_compact(i) ? OpenPages(s) : Most(s, i, layer.positions.size());
    promised += most > layer.pages.size() ? most - layer.pages.size() : 0;
  }
  return promised;
}

uint64_t CacheModel::Count(PageState state) const {
  return static_cast<uint64_t>(
      std::count_if(pages_.begin(), pages_.end(), [&](const Page& p) { return p.state == state; }));
}

absl::StatusCode CacheModel::ExpectOpen(const OpenRequest& request) const {
  const auto worker = workers.find(request.worker);
  if (worker == workers.end()) return absl::StatusCode::kNotFound;
  if (worker->second == WorkerState::kFenced) return kRefused;
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
  const uint64_t own = std::max(s.cache.recent.value(), window);
  const size_t listed = s.cache.layer_budgets.size();
  bool budget_fits = listed == 0 || (s.evicts() && listed == geometry_.num_layers);
  for (size_t layer = 0; budget_fits && layer < geometry_.num_layers; ++layer) {
    const uint64_t budget = s.budget(layer);
    budget_fits = s.evicts() ? budget > 0 && budget % page == 0 &&
                                   sink + own + Represented(s, budget) <= budget
                             : budget == 0;
  }
  if (!budget_fits || sink % page != 0 || s.cache.recent.value() % page != 0 || s.prompt == 0 ||
      s.prompt + s.max_new > UINT32_MAX) {
    return absl::StatusCode::kInvalidArgument;
  }
  const bool fits = PagesToOpen(request) <= FreeOfPromises() || !InTheWay(request).empty();
  return fits ? kOk : absl::StatusCode::kResourceExhausted;
}

absl::StatusCode CacheModel::ExpectHeld(WorkerId worker, SequenceId id, LeaseEpoch lease) const {
  const auto w = workers.find(worker);
  if (w != workers.end() && w->second == WorkerState::kFenced) return kRefused;
  const auto s = sequences.find(id);
  if (s == sequences.end()) return absl::StatusCode::kNotFound;
  const bool held = !s->second.orphaned.has_value() && s->second.worker == worker;
  return held && lease == s->second.lease ? kOk : kRefused;
}

absl::StatusCode CacheModel::ExpectCommit(const CommitRequest& request) const {
  const absl::StatusCode held = ExpectHeld(request.worker, request.sequence, request.lease_epoch);
  if (held != kOk) return held;
  const ModelSequence& s = sequences.at(request.sequence);
  const uint64_t length = request.logical_length.value();
  const uint64_t known = s.known + request.sampled.size();
  const bool record_fits = known == length || known == length + 1;
  bool fits = length >= s.logical;
  if (s.logical < s.prompt) {
    fits = fits && length <= s.prompt && request.filled.empty() &&
           (length == s.prompt ? record_fits : request.sampled.empty());
  } else {
    fits = fits && record_fits && DecodeCommitFits(s, request);
  }
  return fits ? kOk : kRefused;
}

bool CacheModel::DecodeCommitFits(const ModelSequence& s, const CommitRequest& request) const {
  const uint64_t tokens = request.logical_length.value() - s.logical;
  if (tokens > 0 && s.plan.has_value() && (s.plan->compact || s.synchronous())) return false;
  if (request.logical_length.value() > s.prompt + s.max_new) return false;
  return tokens <= Room(s) && request.filled == Filled(s, tokens);
}

absl::StatusCode CacheModel::ExpectAck(WorkerId worker, SequenceId id, LeaseEpoch lease,
                                       PlanEpoch plan) const {
  const absl::StatusCode held = ExpectHeld(worker, id, lease);
  if (held != kOk) return held;
  const ModelSequence& s = sequences.at(id);
  return s.plan.has_value() && s.plan->epoch == plan.value() ? kOk : kRefused;
}

absl::StatusCode CacheModel::ExpectClose(WorkerId worker, SequenceId id, LeaseEpoch lease) const {
  return ExpectHeld(worker, id, lease);
}

std::vector<PageRef> CacheModel::Filled(const ModelSequence& s, uint64_t tokens) const {
  std::vector<PageRef> filled;
  for (const ModelLayer& layer : s.layers) {
    PageRef newest;
    bool fills = false;
    for (uint64_t slot = layer.positions.size(); slot < layer.positions.size() + tokens; ++slot) {
      if ((slot + 1) % geometry_.page_tokens != 0) continue;
      newest = layer.pages.at(slot / geometry_.page_tokens);
      fills = true;
    }
    if (fills) filled.push_back(newest);
  }
  return filled;
}

uint64_t CacheModel::Room(const ModelSequence& s) const {
  uint64_t room = UINT64_MAX;
  for (const ModelLayer& layer : s.layers) {
    room = std::min(room, layer.pages.size() * geometry_.page_tokens - layer.positions.size());
  }
  return room;
}

std::string CacheModel::TakePages(ModelSequence& s, const LayerPageLists& given,
                                  const std::vector<uint64_t>& wanted) {
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    PageList& pages = s.layers[layer].pages;
    const size_t count = given.empty() ? 0 : given.at(layer).size();
    for (size_t i = 0; i < count; ++i) {
      const PageRef ref = given[layer][i];
      if (ref.page.value() >= pages_.size()) return "a page outside the pool";
      Page& page = pages_[ref.page.value()];
      if (page.state != PageState::kFree) return "a page was given out that is not free";
      if (ref.generation.value() != page.generation + 1) return "a generation did not grow by one";
      page = {PageState::kHeld, page.generation + 1, s.worker};
      pages.push_back(ref);
    }
    if (pages.size() != std::max(wanted[layer], pages.size() - count)) {
      return absl::StrCat("layer ", layer, " holds ", pages.size(), " pages, should be ",
                          wanted[layer]);
    }
  }
  return "";
}

std::string CacheModel::TakeGrant(ModelSequence& s, const Outcome& outcome) {
  if (s.plan.has_value() || s.logical < s.prompt || s.must_compact(geometry_)) {
    return outcome.granted.empty() ? "" : "pages were granted that are not due";
  }
  std::vector<uint64_t> wanted;
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    wanted.push_back(Wanted(s, layer, s.layers[layer].positions.size()));
  }
  return TakePages(s, outcome.granted, wanted);
}

std::string CacheModel::DidOpen(const OpenRequest& request, const Opened& opened) {
  std::vector<SequenceId> ended;
  if (PagesToOpen(request) > FreeOfPromises()) ended = InTheWay(request);
  if (opened.ended != ended) return "other orphans made room";
  for (const SequenceId id : ended) End(id, !workers.contains(sequences.at(id).worker));
  ModelSequence s;
  s.worker = request.worker;
  s.token = request.metadata.resume_token;
  s.cache = request.cache;
  s.prompt = request.prompt.size();
  s.max_new = request.max_new_tokens.value();
  s.known = s.prompt;
  s.layers.resize(geometry_.num_layers);
  if (opened.pages.size() != s.layers.size()) return "pages are not one list per layer";
  if (opened.sequence <= last_) {
    return "sequence ids do not grow";
  }
  if (opened.lease_epoch != LeaseEpoch(1)) return "a new sequence's lease epoch is not 1";
  std::string wrong =
      TakePages(s, opened.pages, std::vector<uint64_t>(s.layers.size(), OpenPages(s)));
  last_ = opened.sequence;
  sequences.emplace(opened.sequence, std::move(s));
  return wrong;
}

std::string CacheModel::DidCommit(const CommitRequest& request, const Outcome& outcome) {
  ModelSequence& s = sequences.at(request.sequence);
  for (ModelLayer& layer : s.layers) {
    for (uint64_t p = s.logical; p < request.logical_length.value(); ++p) {
      layer.positions.push_back(static_cast<uint32_t>(p));
    }
  }
  s.logical = request.logical_length.value();
  s.known += request.sampled.size();
  std::string wrong = TakePlan(request.sequence, s, outcome);
  return wrong.empty() ? TakeGrant(s, outcome) : wrong;
}

std::string CacheModel::DidAck(SequenceId id, const Outcome& outcome) {
  ModelSequence& s = sequences.at(id);
  const ModelPlan plan = *std::exchange(s.plan, std::nullopt);
  for (size_t i = 0; i < s.layers.size(); ++i) {
    ModelLayer& layer = s.layers[i];
    if (plan.compact) {
      std::vector<uint32_t> kept;
      for (uint32_t slot : plan.keep[i]) kept.push_back(layer.positions.at(slot));
      layer.positions = kept;
      while (layer.pages.size() > PagesFor(kept.size()) + plan.spare[i]) {
        Free(layer.pages.back());
        layer.pages.pop_back();
      }
      s.compacted = true;
    } else if (plan.drop[i].has_value()) {
      const auto page = layer.pages.begin() + *plan.drop[i];
      Free(*page);
      layer.pages.erase(page);
      const auto token = layer.positions.begin() + *plan.drop[i] * geometry_.page_tokens;
      layer.positions.erase(token, token + geometry_.page_tokens);
    }
  }
  std::string wrong = TakeGrant(s, outcome);
  return wrong.empty() ? TakePlan(id, s, outcome) : wrong;
}

void CacheModel::DidClose(SequenceId id) { End(id, /*quiesced=*/true); }

}  // namespace folio::cache
