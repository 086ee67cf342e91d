// The model's lost workers, and the sequences that outlive them.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {

void CacheModel::End(SequenceId id, bool quiesced) {
  const ModelSequence& s = sequences.at(id);
  for (const ModelLayer& layer : s.layers) {
    for (PageRef ref : layer.pages) {
      Page& page = pages_[ref.page.value()];
      page.state = quiesced ? PageState::kFree : PageState::kQuarantined;
      page.writer = s.worker;
    }
  }
  sequences.erase(id);
}

void CacheModel::Fence(WorkerId worker, bool quiesced) {
  const auto it = workers.find(worker);
  if (it == workers.end()) return;
  it->second = WorkerState::kFenced;
  std::vector<SequenceId> ended;
  for (auto& [id, s] : sequences) {
    if (s.worker != worker || s.orphaned.has_value()) continue;
    const bool compacts = s.plan.has_value() && s.plan->compact;
    if (orphan_seconds_ > 0 && !s.token.empty() && !compacts) {
      s.orphaned = now_;
    } else {
      ended.push_back(id);
    }
  }
  for (const SequenceId id : ended) End(id, quiesced);
  if (!quiesced) return;
  for (Page& page : pages_) {
    if (page.state == PageState::kQuarantined && page.writer == worker) {
      page.state = PageState::kFree;
    }
  }
  workers.erase(it);
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

uint64_t CacheModel::FreeOfPromises() const {
  uint64_t promised = 0;
  for (const auto& [id, other] : sequences) promised += Promised(other);
  return Count(PageState::kFree) - promised;
}

uint64_t CacheModel::PagesToOpen(const OpenRequest& request) const {
  ModelSequence s;
  s.cache = request.cache;
  s.prompt = request.prompt.size();
  s.max_new = request.max_new_tokens.value();
  uint64_t pages = 0;
  for (size_t layer = 0; layer < geometry_.num_layers; ++layer) {
    pages += s.must_compact(layer) ? OpenPages(s) : Most(s, layer, 0);
  }
  return pages;
}

std::vector<SequenceId> CacheModel::InTheWay(const OpenRequest& request) const {
  std::vector<std::pair<int64_t, SequenceId>> orphans;
  for (const auto& [id, s] : sequences) {
    if (s.orphaned.has_value()) orphans.emplace_back(*s.orphaned, id);
  }
  std::sort(orphans.begin(), orphans.end());
  const uint64_t wanted = PagesToOpen(request);
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

absl::StatusCode CacheModel::ExpectClaim(const ClaimRequest& request) const {
  const auto worker = workers.find(request.worker);
  if (worker == workers.end()) return absl::StatusCode::kNotFound;
  if (worker->second == WorkerState::kFenced) return absl::StatusCode::kFailedPrecondition;
  const auto it = sequences.find(request.sequence);
  if (it == sequences.end()) return absl::StatusCode::kNotFound;
  const ModelSequence& s = it->second;
  if (s.token.empty() || s.token != request.resume_token) {
    return absl::StatusCode::kPermissionDenied;
  }
  const bool ready = s.orphaned.has_value() && !workers.contains(s.worker);
  return ready ? absl::StatusCode::kOk : absl::StatusCode::kUnavailable;
}

std::string CacheModel::CompareClaim(const ModelSequence& s, const Claimed& claimed) const {
  if (claimed.lease_epoch != s.lease || claimed.logical_length.value() != s.logical ||
      claimed.tokens.size() != s.known || claimed.prompt_tokens.value() != s.prompt ||
      claimed.max_new_tokens.value() != s.max_new) {
    return "a claim gives another record";
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
  for (size_t layer = 0; layer < s.layers.size(); ++layer) {
    std::vector<uint32_t> kept;
    for (const PositionRange& run : claimed.layers.at(layer).kept) {
      for (uint32_t p = run.begin.value(); p < run.end.value(); ++p) kept.push_back(p);
    }
    if (kept != s.layers[layer].positions || claimed.layers[layer].pages != s.layers[layer].pages) {
      return absl::StrCat("a claim gives another table of layer ", layer);
    }
  }
  return "";
}

std::string CacheModel::DidClaim(const ClaimRequest& request, const Claimed& claimed) {
  ModelSequence& s = sequences.at(request.sequence);
  s.worker = request.worker;
  s.orphaned.reset();
  ++s.lease;
  return CompareClaim(s, claimed);
}

}  // namespace folio::cache
