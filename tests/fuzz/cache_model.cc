#include "tests/fuzz/cache_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/model_budgets.h"

namespace folio::cache {
namespace {

constexpr auto kOk = absl::StatusCode::kOk;
constexpr auto kNotAllowed = absl::StatusCode::kFailedPrecondition;

}  // namespace

CacheModel::CacheModel(const CacheGeometry& geometry, uint32_t pages,
                       const std::vector<float>* board, int64_t orphan_seconds,
                       int64_t grace_seconds, Admission admission, uint32_t swap_slots)
    : geometry_(geometry),
      board_(board),
      orphan_seconds_(orphan_seconds),
      grace_seconds_(grace_seconds),
      admission_(admission),
      swap_slots_(swap_slots),
      pages_(pages) {}

uint64_t CacheModel::PagesFor(uint64_t tokens) const {
  return (tokens + geometry_.page_tokens - 1) / geometry_.page_tokens;
}

// The most pages that a layer has in the prompt.
uint64_t CacheModel::OpenPages(const ModelSequence& s, size_t layer) const {
  uint64_t most = s.prompt;
  if (s.streams()) {
    most =
        std::min(most, s.first_budget(layer) + s.cache.compaction_stride.value() + s.queries() - 1);
  }
  if (s.windowed[layer]) {
    const uint64_t page = geometry_.page_tokens;
    most = s.ahead == 0 ? s.prompt : std::min(s.prompt, WindowTokens(s, page) + page + s.ahead);
  }
  return std::min(PagesFor(most) + 1, PagesFor(s.prompt + s.max_new));
}

// Pages per layer that the rest of the life can fill, within the budget and two.
uint64_t CacheModel::Most(const ModelSequence& s, size_t layer, uint64_t resident) const {
  const uint64_t rest = PagesFor(resident + s.prompt + s.max_new - s.logical);
  const uint64_t cap = Allowed(s, layer, geometry_) / geometry_.page_tokens + 2;
  return s.evicts() || s.windowed[layer] ? std::min(rest, cap) : rest;
}

// Pages that a layer should have now: those of its prompt's next chunks, or as in decode.
uint64_t CacheModel::Due(const ModelSequence& s, size_t layer) const {
  const uint64_t resident = s.layers[layer].positions.size();
  return s.in_prompt(geometry_) ? DueInPrompt(s, resident) : Wanted(s, layer, resident);
}

uint64_t CacheModel::DueInPrompt(const ModelSequence& s, uint64_t resident) const {
  uint64_t until = s.StopBehind(s.logical);
  if (s.abilities.prefill_ahead.value() > 0) {
    until = std::min(until, s.logical + s.abilities.prefill_ahead.value());
  }
  const uint64_t tokens = resident + until - s.logical;
  if (until < s.prompt) return PagesFor(tokens);
  return std::min(PagesFor(tokens) + 1, PagesFor(tokens + s.max_new));
}

// Pages that a layer should have in decode: the newest and one ahead.
uint64_t CacheModel::Wanted(const ModelSequence& s, size_t layer, uint64_t resident) const {
  return std::min(resident / geometry_.page_tokens + 2, Most(s, layer, resident));
}

uint64_t CacheModel::Count(PageState state) const {
  return static_cast<uint64_t>(
      std::count_if(pages_.begin(), pages_.end(), [&](const Page& p) { return p.state == state; }));
}

absl::StatusCode CacheModel::ExpectHeld(WorkerId worker, SequenceId id, LeaseEpoch lease) const {
  const auto w = workers.find(worker);
  if (w != workers.end() && w->second == WorkerState::kFenced) return kNotAllowed;
  const auto s = sequences.find(id);
  if (s == sequences.end()) return absl::StatusCode::kNotFound;
  const bool held = !s->second.orphaned.has_value() && s->second.worker == worker;
  return held && lease == s->second.lease ? kOk : kNotAllowed;
}

absl::StatusCode CacheModel::ExpectCommit(const CommitRequest& request) const {
  const absl::StatusCode held = ExpectHeld(request.worker, request.sequence, request.lease_epoch);
  if (held != kOk) return held;
  const ModelSequence& s = sequences.at(request.sequence);
  const uint64_t length = request.logical_length.value();
  const uint64_t known = s.known + request.sampled.size();
  // Tokens that were known before the sequence was parked are computed again.
  const bool again = request.sampled.empty() && s.known > length;
  const bool record_fits = known == length || known == length + 1 || again;
  bool fits = length >= s.logical && !s.parked;
  if (s.logical < s.prompt) {
    fits = fits && length <= s.StopBehind(s.logical) && length - s.logical <= Room(s) &&
           (length == s.logical || !s.plan.has_value()) && request.filled.empty() &&
           (length == s.prompt ? record_fits : request.sampled.empty());
  } else {
    fits = fits && record_fits && DecodeCommitFits(s, request);
  }
  return fits ? kOk : kNotAllowed;
}

bool CacheModel::DecodeCommitFits(const ModelSequence& s, const CommitRequest& request) const {
  const uint64_t tokens = request.logical_length.value() - s.logical;
  const bool waits = s.synchronous() && !s.fall.active();
  if (tokens > 0 && s.plan.has_value() && (s.plan->compact || waits)) return false;
  if (request.logical_length.value() > s.prompt + s.max_new) return false;
  return tokens <= Room(s) && request.filled == Filled(s, tokens);
}

absl::StatusCode CacheModel::ExpectAck(WorkerId worker, SequenceId id, LeaseEpoch lease,
                                       PlanEpoch plan) const {
  const absl::StatusCode held = ExpectHeld(worker, id, lease);
  if (held != kOk) return held;
  const ModelSequence& s = sequences.at(id);
  return !s.parked && s.plan.has_value() && s.plan->epoch == plan.value() ? kOk : kNotAllowed;
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
    const uint64_t fit = layer.pages.size() * geometry_.page_tokens;  // 0 if it is swapped
    room = std::min(room, fit - std::min<uint64_t>(fit, layer.positions.size()));
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

std::string CacheModel::DidCommit(const CommitRequest& request, const Outcome& outcome) {
  ModelSequence& s = sequences.at(request.sequence);
  s.NoteSwappedIn();
  const uint64_t promised = Promised(s);
  const bool in_prompt = s.in_prompt(geometry_);
  for (ModelLayer& layer : s.layers) {
    for (uint64_t p = s.logical; p < request.logical_length.value(); ++p) {
      layer.positions.push_back(static_cast<uint32_t>(p));
    }
  }
  MoveWindows(s, request.logical_length.value());
  const uint64_t grown = request.logical_length.value() - s.logical;
  line_.OnCommit(request.worker, s.tenant, grown, now_);
  if (grown > 0) s.Advance(request.logical_length.value());
  s.known += request.sampled.size();
  if (in_prompt && !s.in_prompt(geometry_)) BeginFall(s, geometry_);
  std::string wrong = TakePlan(request.sequence, s, outcome);
  return wrong.empty() ? TakeGrant(s, outcome.granted, promised) : wrong;
}

// A stride goes when the pages that are full hold a whole window behind it.
void CacheModel::MoveWindows(ModelSequence& s, uint64_t length) {
  const uint64_t page = geometry_.page_tokens;
  const uint64_t stride = geometry_.windows.stride();
  for (size_t i = 0; i < s.layers.size(); ++i) {
    ModelLayer& layer = s.layers[i];
    while (s.windowed[i] && layer.positions.size() >= stride &&
           layer.positions[stride - 1] + 1 + s.window <= length / page * page) {
      layer.positions.erase(layer.positions.begin(), layer.positions.begin() + stride);
      for (uint64_t tokens = 0; tokens < stride; tokens += page) {
        Free(layer.pages.front());
        layer.pages.erase(layer.pages.begin());
        ++windows_moved;
      }
    }
  }
}

std::string CacheModel::DidAck(SequenceId id, const Outcome& outcome) {
  ModelSequence& s = sequences.at(id);
  s.NoteSwappedIn();
  const ModelPlan plan = *std::exchange(s.plan, std::nullopt);
  s.Advance(s.logical);
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
      s.compacted = s.logical == s.prompt;
    } else if (plan.drop[i].has_value()) {
      const auto page = layer.pages.begin() + *plan.drop[i];
      Free(*page);
      layer.pages.erase(page);
      const auto token = layer.positions.begin() + *plan.drop[i] * geometry_.page_tokens;
      layer.positions.erase(token, token + geometry_.page_tokens);
    }
  }
  if (!plan.compact) NoteDrop(s, geometry_.page_tokens);
  if (plan.compact && s.compacted) BeginFall(s, geometry_);
  std::string wrong = TakeGrant(s, outcome.granted, Promised(s));
  return wrong.empty() ? TakePlan(id, s, outcome) : wrong;
}

void CacheModel::DidClose(SequenceId id) {
  line_.Leave({sequences.at(id).worker, id});
  End(id, /*quiesced=*/true);
}

}  // namespace folio::cache
