// The model's plans, workers and comparisons.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {
namespace {

constexpr int64_t kLeaseSeconds = 10;

double NanIsLowest(double value) {
  return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
}

}  // namespace

double CacheModel::TokenScore(PageRef page, uint32_t offset) const {
  const uint32_t heads = geometry_.num_kv_heads;
  const size_t row = (size_t{page.page.value()} * geometry_.page_tokens + offset) * heads;
  double sum = 0;
  for (uint32_t head = 0; head < heads; ++head) sum += (*board_)[row + head];
  return NanIsLowest(sum / heads);
}

std::vector<uint32_t> CacheModel::KeepInPrefill(const ModelSequence& s,
                                                const ModelLayer& layer) const {
  const auto tokens = static_cast<uint32_t>(layer.positions.size());
  const uint32_t page = geometry_.page_tokens;
  std::vector<std::pair<double, uint32_t>> middle;
  std::vector<uint32_t> keep;
  for (uint32_t slot = 0; slot < tokens; ++slot) {
    if (slot < s.cache.sink.value() || slot >= tokens - s.cache.recent.value()) {
      keep.push_back(slot);
    } else {
      const bool by_position = std::holds_alternative<policy::StreamingLlmSpec>(s.cache.policy);
      middle.emplace_back(by_position ? slot : TokenScore(layer.pages[slot / page], slot % page),
                          slot);
    }
  }
  std::sort(middle.rbegin(), middle.rend());  // the highest first, of equal ones the newer
  for (size_t i = 0; keep.size() < s.cache.budget.value(); ++i) keep.push_back(middle[i].second);
  std::sort(keep.begin(), keep.end());
  return keep;
}

uint32_t CacheModel::DropInDecode(const ModelSequence& s, const ModelLayer& layer) const {
  const uint32_t page = geometry_.page_tokens;
  const auto blocks = static_cast<uint32_t>(layer.positions.size() / page);
  std::vector<std::pair<double, uint32_t>> candidates;
  for (uint32_t block = s.cache.sink.value() / page; block < blocks - s.cache.recent.value() / page;
       ++block) {
    double sum = 0;
    for (uint32_t offset = 0; offset < page; ++offset) {
      sum += TokenScore(layer.pages[block], offset);
    }
    const bool by_position = std::holds_alternative<policy::StreamingLlmSpec>(s.cache.policy);
    candidates.emplace_back(by_position ? 0 : NanIsLowest(sum), block);
  }
  return std::min_element(candidates.begin(), candidates.end())->second;
}

std::string CacheModel::TakePlan(SequenceId id, ModelSequence& s, const Outcome& outcome) {
  const uint64_t page = geometry_.page_tokens;
  const uint64_t budget = s.cache.budget.value();
  const bool compact = s.logical == s.prompt && s.must_compact();
  const bool drop = s.evicts() && s.logical >= s.prompt && s.resident() / page * page > budget;
  const bool due = !s.plan.has_value() && (compact || drop);
  if (due != outcome.plan.has_value()) return due ? "a plan is missing" : "a plan is not due";
  if (!due) return "";
  ModelPlan plan;
  plan.epoch = ++s.plans;
  plan.compact = compact;
  if (outcome.plan->sequence != id || outcome.plan->epoch.value() != plan.epoch) {
    return "a plan is numbered wrongly";
  }
  if (compact) {
    const auto* action = std::get_if<CompactAction>(&outcome.plan->action);
    if (action == nullptr || action->keep.size() != s.layers.size()) return "no compaction";
    plan.spare =
        static_cast<uint32_t>(std::min(budget / page + 2, Most(s, budget)) - budget / page);
    if (action->spare.value() != plan.spare) return "wrong spare pages";
    for (size_t i = 0; i < s.layers.size(); ++i) {
      plan.keep.push_back(KeepInPrefill(s, s.layers[i]));
      if (!std::equal(plan.keep[i].begin(), plan.keep[i].end(), action->keep[i].begin(),
                      action->keep[i].end(),
                      [](uint32_t a, SlotIndex b) { return a == b.value(); })) {
        return absl::StrCat("layer ", i, " keeps other tokens");
      }
    }
  } else {
    const auto* action = std::get_if<DropAction>(&outcome.plan->action);
    if (action == nullptr || action->block.size() != s.layers.size()) return "no drop";
    for (size_t i = 0; i < s.layers.size(); ++i) {
      plan.drop.push_back(DropInDecode(s, s.layers[i]));
      if (plan.drop[i] != action->block[i].value()) {
        return absl::StrCat("layer ", i, " drops block ", action->block[i].value(), ", not ",
                            plan.drop[i]);
      }
    }
  }
  s.plan = plan;
  return "";
}

void CacheModel::AddWorker(WorkerId worker) {
  workers.emplace(worker, WorkerState::kLive);
  heard_[worker] = now_;
}

void CacheModel::Heard(WorkerId worker) {
  const auto it = workers.find(worker);
  if (it != workers.end() && it->second == WorkerState::kLive) heard_[worker] = now_;
}

void CacheModel::Fence(WorkerId worker, bool quiesced) {
  const auto it = workers.find(worker);
  if (it == workers.end()) return;
  it->second = WorkerState::kFenced;
  for (auto s = sequences.begin(); s != sequences.end();) {
    s = s->second.worker == worker ? sequences.erase(s) : std::next(s);
  }
  for (Page& page : pages_) {
    if (page.state == PageState::kFree || page.writer != worker) continue;
    page.state = quiesced ? PageState::kFree : PageState::kQuarantined;
  }
  if (quiesced) workers.erase(it);
}

std::vector<WorkerId> CacheModel::Expire(int64_t seconds) {
  now_ += seconds;
  std::vector<WorkerId> expired;
  for (const auto& [worker, state] : workers) {
    if (state == WorkerState::kLive && heard_[worker] + kLeaseSeconds < now_) {
      expired.push_back(worker);
    }
  }
  for (WorkerId worker : expired) Fence(worker, /*quiesced=*/false);
  return expired;
}

std::string CacheModel::CompareTotals(const PoolInfo& pool) const {
  uint64_t promised = 0;
  for (const auto& [id, s] : sequences) promised += Promised(s);
  uint64_t live = 0;
  for (const auto& [id, state] : workers) live += state == WorkerState::kLive ? 1 : 0;
  if (pool.free.value() != Count(PageState::kFree) ||
      pool.held.value() != Count(PageState::kHeld) ||
      pool.quarantined.value() != Count(PageState::kQuarantined) ||
      pool.total.value() != pages_.size()) {
    return absl::StrCat("pages: free ", pool.free.value(), " held ", pool.held.value(),
                        " quarantined ", pool.quarantined.value(), ", should be ",
                        Count(PageState::kFree), ", ", Count(PageState::kHeld), ", ",
                        Count(PageState::kQuarantined));
  }
  if (pool.reserved.value() != promised) {
    return absl::StrCat("reserved ", pool.reserved.value(), ", should be ", promised);
  }
  if (pool.sequences != sequences.size()) return "wrong number of sequences";
  return pool.workers.size() == live ? "" : "wrong number of workers";
}

std::string CacheModel::CompareSequence(const SequenceDetail& detail) const {
  const ModelSequence& s = sequences.at(detail.info.id);
  uint64_t held = 0;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    std::vector<uint32_t> kept;
    for (const PositionRange& run : detail.layers.at(i).kept) {
      for (uint32_t p = run.begin.value(); p < run.end.value(); ++p) kept.push_back(p);
    }
    if (kept != s.layers[i].positions) return absl::StrCat("positions of layer ", i, " differ");
    if (detail.layers[i].pages != s.layers[i].pages) {
      return absl::StrCat("pages of layer ", i, " differ");
    }
    held += s.layers[i].pages.size();
  }
  const SequenceInfo& info = detail.info;
  const SequenceState state = s.plan.has_value()     ? SequenceState::kEvicting
                              : s.logical < s.prompt ? SequenceState::kPrefill
                                                     : SequenceState::kDecode;
  if (info.state != state || info.logical_length.value() != s.logical ||
      info.resident.value() != s.resident() || info.held_pages.value() != held ||
      info.evicted_tokens.value() != s.logical - s.resident() ||
      info.reserved_pages.value() != Promised(s) || info.plan_epoch.value() != s.plans ||
      info.worker != s.worker) {
    return "what is reported of the sequence differs";
  }
  return "";
}

}  // namespace folio::cache
