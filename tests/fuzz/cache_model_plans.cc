// The model's plans, workers and comparisons.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"
#include "tests/fuzz/model_budgets.h"
#include "tests/fuzz/model_shares.h"

namespace folio::cache {
namespace {

constexpr int64_t kLeaseSeconds = 10;

double NanIsLowest(double value) {
  return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
}

// Policies whose choice the model restates. For the others it checks the contract, and asks the
// policy itself which block it drops in decode.
bool IsExact(const ModelSequence& s) {
  if (s.cache.layers == policy::Layers::kShared || s.cache.shares != policy::Shares{}) return false;
  const policy::PolicySpec& spec = s.cache.policy.spec();
  return std::holds_alternative<policy::PagedEvictionSpec>(spec) ||
         std::holds_alternative<policy::StreamingLlmSpec>(spec) ||
         std::holds_alternative<policy::InverseKeyNormSpec>(spec) ||
         std::holds_alternative<policy::KeyDiffSpec>(spec);
}

// Checks the slots that any policy keeps.
std::string Contract(const ModelSequence& s, size_t layer, const std::vector<uint32_t>& keep,
                     uint32_t page) {
  const auto tokens = static_cast<uint32_t>(s.layers[layer].positions.size());
  if (keep.size() != s.first_budget(layer)) return " does not keep its budget";
  std::vector<bool> kept(tokens, false);
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i] >= tokens || (i > 0 && keep[i - 1] >= keep[i])) return " keeps no ascending slots";
    kept[keep[i]] = true;
  }
  const uint64_t end = ShareTokens(s.first_budget(layer), s.cache.shares.ends, page);
  const uint64_t first = std::max<uint64_t>(s.cache.sink.value(), end);
  const uint64_t last = std::max<uint64_t>(s.cache.recent.value(), end);
  for (uint32_t slot = 0; slot < tokens; ++slot) {
    const bool is_protected = slot < first || slot + last >= tokens;
    if (is_protected && !kept[slot]) return " loses a protected token";
  }
  return "";
}

}  // namespace

double CacheModel::TokenScore(PageRef page, uint32_t offset) const {
  const uint32_t heads = geometry_.num_kv_heads;
  const size_t row = (size_t{page.page.value()} * geometry_.page_tokens + offset) * heads;
  double sum = 0;
  for (uint32_t head = 0; head < heads; ++head) sum += (*board_)[row + head];
  return NanIsLowest(sum / heads);
}

std::vector<uint32_t> CacheModel::KeepInPrefill(const ModelSequence& s, size_t at) const {
  const ModelLayer& layer = s.layers[at];
  const auto tokens = static_cast<uint32_t>(layer.positions.size());
  const uint32_t page = geometry_.page_tokens;
  std::vector<std::pair<double, uint32_t>> middle;
  std::vector<uint32_t> keep;
  for (uint32_t slot = 0; slot < tokens; ++slot) {
    if (slot < s.cache.sink.value() || slot >= tokens - s.cache.recent.value()) {
      keep.push_back(slot);
    } else {
      const bool by_position =
          std::holds_alternative<policy::StreamingLlmSpec>(s.cache.policy.spec());
      middle.emplace_back(by_position ? slot : TokenScore(layer.pages[slot / page], slot % page),
                          slot);
    }
  }
  std::sort(middle.rbegin(), middle.rend());  // the highest first, of equal ones the newer
  for (size_t i = 0; keep.size() < s.first_budget(at); ++i) keep.push_back(middle[i].second);
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
    const bool by_position =
        std::holds_alternative<policy::StreamingLlmSpec>(s.cache.policy.spec());
    candidates.emplace_back(by_position ? 0 : NanIsLowest(sum), block);
  }
  return std::min_element(candidates.begin(), candidates.end())->second;
}

// The policy's choice from the whole board, without scores kept between decisions.
uint32_t CacheModel::DropByPolicy(const ModelSequence& s, size_t at) const {
  const std::shared_ptr<const policy::Policy> policy = policy::MakePolicy(s.cache.policy.spec());
  const uint32_t page = geometry_.page_tokens;
  const bool prompt_only = policy->traits().scores.time == ScoreTime::kPromptEnd;
  // The judges are the code's own.
  const auto num_layers = static_cast<uint32_t>(s.layers.size());
  const auto own = static_cast<uint32_t>(at);
  const LayerRange judges = s.cache.layers == policy::Layers::kShared ? s.cache.judges(num_layers)
                                                                      : LayerRange{own, own + 1};
  std::vector<std::vector<const float*>> pages(s.layers.size());
  std::vector<policy::LayerScores> group;
  for (uint32_t index = judges.begin; index < judges.end; ++index) {
    const ModelLayer& layer = s.layers[index];
    const uint32_t tokens = static_cast<uint32_t>(layer.positions.size()) / page * page;
    uint32_t of_prompt = 0;
    for (uint32_t slot = 0; slot < tokens; ++slot) {
      of_prompt += layer.positions[slot] < s.prompt ? 1 : 0;
      if (slot % page != 0) continue;
      pages[index].push_back(
          &(*board_)[layer.pages[slot / page].page.value() * geometry_.scores_per_page()]);
    }
    group.push_back({.pages = pages[index],
                     .page_tokens = page,
                     .kv_heads = geometry_.num_kv_heads,
                     .tokens = TokenCount(tokens),
                     .scored = TokenCount(prompt_only ? of_prompt : tokens),
                     .layer = LayerIndex(index),
                     .logical_length = TokenCount(static_cast<uint32_t>(s.logical))});
  }
  // The limits are the code's own. IsShared restates what they protect.
  const policy::Limits limits = policy::DecodeLimits(
      s.cache.limits(at), s.cache.shares, TokenCount(TokensBefore(s.layers[at], s.prompt)), page);
  const std::vector<TokenSlot> stretch_ends = StretchEnds(s, s.layers[at]);
  for (policy::LayerScores& layer : group) layer.stretch_ends = stretch_ends;
  return policy->SelectDecode(group, limits, {}).value();
}

std::string CacheModel::TakeCompaction(const ModelSequence& s, const CompactAction& action,
                                       ModelPlan* plan) const {
  if (action.keep.size() != s.layers.size() || action.spare.size() != s.layers.size()) {
    return "a compaction does not name each layer";
  }
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const ModelLayer& layer = s.layers[i];
    std::vector<uint32_t> keep;
    for (const TokenSlot slot : action.keep[i]) keep.push_back(slot.value());
    if (s.windowed[i] || layer.positions.size() <= s.first_budget(i)) {
      std::vector<uint32_t> all(layer.positions.size());
      for (uint32_t slot = 0; slot < all.size(); ++slot) all[slot] = slot;
      if (keep != all) return absl::StrCat("layer ", i, " is within its budget and loses tokens");
    } else if (IsExact(s)) {
      if (keep != KeepInPrefill(s, i)) return absl::StrCat("layer ", i, " keeps other tokens");
    } else {
      if (s.cache.layers == policy::Layers::kShared && i > 0 && keep != plan->keep[0]) {
        return absl::StrCat("layer ", i, " does not keep what the first one keeps");
      }
      const std::string wrong = Contract(s, i, keep, geometry_.page_tokens);
      if (!wrong.empty()) return absl::StrCat("layer ", i, wrong);
    }
    const uint64_t wanted =
        s.logical < s.prompt ? DueInPrompt(s, keep.size()) : Wanted(s, i, keep.size());
    const uint64_t stay = std::min<uint64_t>(wanted, layer.pages.size());
    plan->spare.push_back(static_cast<uint32_t>(stay - PagesFor(keep.size())));
    if (action.spare[i].value() != plan->spare[i]) return "wrong spare pages";
    plan->keep.push_back(keep);
  }
  return "";
}

std::string CacheModel::TakeDrop(const ModelSequence& s, const DropAction& action,
                                 ModelPlan* plan) const {
  if (action.block.size() != s.layers.size()) return "a drop does not speak of each layer";
  const uint64_t page = geometry_.page_tokens;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    const uint64_t full = s.layers[i].positions.size() / page;
    const bool over = !s.windowed[i] && full * page > s.budget(i);
    if (action.block[i].has_value() != over) return absl::StrCat("layer ", i, " drops wrongly");
    plan->drop.emplace_back();
    if (!over) continue;
    const uint32_t block = action.block[i]->value();
    if (block != (IsExact(s) ? DropInDecode(s, s.layers[i]) : DropByPolicy(s, i))) {
      return absl::StrCat("layer ", i, " drops block ", block);
    }
    if (block * page < s.cache.sink.value() ||
        (block + 1) * page + s.cache.recent.value() > full * page ||
        IsShared(s, i, block, static_cast<uint32_t>(page))) {
      return absl::StrCat("layer ", i, " drops a protected block");
    }
    plan->drop.back() = block;
  }
  return "";
}

std::string CacheModel::TakePlan(SequenceId id, ModelSequence& s, const Outcome& outcome) {
  const bool compact = s.stands() || (s.logical == s.prompt && s.must_compact(geometry_));
  const bool due = !s.plan.has_value() && (compact || DropIsDue(s, geometry_));
  if (due != outcome.plan.has_value()) return due ? "a plan is missing" : "a plan is not due";
  if (!due) return "";
  ModelPlan plan;
  plan.epoch = ++s.plans;
  plan.compact = compact;
  if (outcome.plan->sequence != id || outcome.plan->epoch.value() != plan.epoch) {
    return "a plan is numbered wrongly";
  }
  const auto* compaction = std::get_if<CompactAction>(&outcome.plan->action);
  const auto* dropping = std::get_if<DropAction>(&outcome.plan->action);
  if ((compaction != nullptr) != compact) return "a plan of the wrong kind";
  std::string wrong =
      compact ? TakeCompaction(s, *compaction, &plan) : TakeDrop(s, *dropping, &plan);
  if (!wrong.empty()) return wrong;
  s.plan = plan;
  s.starved = false;  // it will make room
  s.fall.begun = true;
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
  const auto orphans = std::count_if(sequences.begin(), sequences.end(), [](const auto& one) {
    return one.second.orphaned.has_value();
  });
  if (pool.orphans() != orphans) return "wrong number of orphans";
  if (pool.given_up != given_up.size()) return "wrong number of sequences given up";
  std::string slots = CompareSlots(pool);
  if (!slots.empty()) return slots;
  return pool.workers.size() == live ? "" : "wrong number of workers";
}

std::string CacheModel::CompareSequence(const SequenceDetail& detail) const {
  const ModelSequence& s = sequences.at(detail.info.id);
  std::string wrong = CompareLayers(s, detail.layers);
  if (!wrong.empty()) return wrong;
  uint64_t held = 0;
  uint64_t most = 0;
  uint64_t least = s.logical;
  for (size_t i = 0; i < s.layers.size(); ++i) {
    held += s.layers[i].pages.size();
    most = std::max<uint64_t>(most, s.layers[i].positions.size());
    if (!s.windowed[i]) least = std::min<uint64_t>(least, s.layers[i].positions.size());
    if (detail.info.cache.layer_budget(i).value() != s.budget(i)) return "another budget";
  }
  const SequenceInfo& info = detail.info;
  const SequenceState state = s.orphaned.has_value() ? SequenceState::kOrphaned
                              : s.parked             ? SequenceState::kParked
                              : s.plan.has_value()   ? SequenceState::kEvicting
                              : s.logical < s.prompt ? SequenceState::kPrefill
                                                     : SequenceState::kDecode;
  if (info.state != state || info.logical_length.value() != s.logical ||
      info.resident.value() != most || info.held_pages.value() != held ||
      info.evicted_tokens.value() != s.logical - least ||
      info.reserved_pages.value() != Promised(s) || info.plan_epoch.value() != s.plans ||
      info.worker != s.worker || info.lease_epoch != s.lease || info.swap_slots != s.slots.size()) {
    return "the report about the sequence differs";
  }
  return "";
}

}  // namespace folio::cache
