#include "services/cache/sequence.h"

#include <algorithm>
#include <utility>

#include "services/common/check.h"

namespace folio::cache {
namespace {

// The prompt is longer than the layer's budget.
bool Compacts(const OpenRequest& request, const policy::Policy& policy, size_t layer) {
  return policy.evicts() && request.prompt.size() > request.cache.layer_budget(layer).value();
}

bool MustCompact(const OpenRequest& request, const policy::Policy& policy, uint32_t layers) {
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (Compacts(request, policy, layer)) return true;
  }
  return false;
}

std::vector<Footprint> MakeFootprints(const OpenRequest& request, const policy::Policy& policy,
                                      const CacheGeometry& geometry) {
  std::vector<Footprint> footprints;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    footprints.emplace_back(geometry.page_tokens,
                            policy.evicts() ? request.cache.layer_budget(layer).value() : 0);
  }
  return footprints;
}

}  // namespace

Sequence::Sequence(SequenceId id, const OpenRequest& request,
                   std::shared_ptr<const policy::Policy> policy, const CacheGeometry& geometry,
                   PageReservation reservation, absl::Time opened)
    : id_(id),
      worker_(request.worker),
      geometry_(geometry),
      policy_(std::move(policy)),
      cache_(request.cache),
      notes_(request.notes),
      opened_(opened),
      prompt_tokens_(static_cast<uint32_t>(request.prompt.size())),
      max_new_tokens_(request.max_new_tokens.value()),
      footprints_(MakeFootprints(request, *policy_, geometry)),
      must_compact_(MustCompact(request, *policy_, geometry.num_layers)),
      tokens_(request.prompt),
      layers_(geometry.num_layers, BlockTable(geometry.page_tokens)),
      reservation_(std::move(reservation)) {}

Sequence::~Sequence() { FOLIO_CHECK(held_pages() == 0 && !deciding_); }

uint64_t Sequence::WorstCase(const OpenRequest& request, const policy::Policy& policy,
                             const CacheGeometry& geometry) {
  const uint64_t prompt = request.prompt.size();
  const uint64_t remaining = request.max_new_tokens.value();
  uint64_t pages = 0;
  for (uint32_t layer = 0; const Footprint& footprint : MakeFootprints(request, policy, geometry)) {
    // Compaction only ever shrinks a table, and what follows it fits what the prompt took.
    pages += Compacts(request, policy, layer) ? footprint.ForPrompt(prompt, remaining)
                                              : footprint.Ever(prompt, remaining);
    ++layer;
  }
  return pages;
}

bool Sequence::in_prompt() const {
  return logical_length_ < prompt_tokens_ || (must_compact_ && !compacted_);
}

uint64_t Sequence::remaining() const {
  return uint64_t{prompt_tokens_} + max_new_tokens_ - logical_length_;
}

uint64_t Sequence::PagesWanted(size_t layer) const {
  if (in_prompt()) return footprints_[layer].ForPrompt(prompt_tokens_, max_new_tokens_);
  return footprints_[layer].Now(layers_[layer].resident().value(), remaining());
}

uint64_t Sequence::PagesPromised(size_t layer) const {
  const bool compacts = must_compact_ && !compacted_ && policy_->evicts() &&
                        prompt_tokens_ > cache_.layer_budget(layer).value();
  if (compacts) return footprints_[layer].ForPrompt(prompt_tokens_, max_new_tokens_);
  return footprints_[layer].Ever(layers_[layer].resident().value(), remaining());
}

uint64_t Sequence::PagesPromised() const {
  uint64_t promised = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    const uint64_t held = layers_[layer].pages().size();
    promised += std::max(PagesPromised(layer), held) - held;
  }
  return promised;
}

uint32_t Sequence::FullTokens(const BlockTable& table) const {
  const uint32_t resident = table.resident().value();
  return resident - resident % geometry_.page_tokens;
}

void Sequence::ApplyCommit(const CommitRequest& request) {
  const uint32_t growth = request.logical_length.value() - logical_length_;
  for (BlockTable& table : layers_) table.Append(Position(logical_length_), TokenCount(growth));
  logical_length_ += growth;
  tokens_.insert(tokens_.end(), request.sampled.begin(), request.sampled.end());
}

LayerPageLists Sequence::GrantPages(PagePool& pool) {
  if (plan_in_flight()) return {};
  LayerPageLists granted;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    BlockTable& table = layers_[layer];
    const uint64_t wanted = PagesWanted(layer);
    while (table.pages().size() < wanted) {
      table.AddPage(pool.Take(reservation_));
      granted.resize(layers_.size());
      granted[layer].push_back(table.pages().back());
    }
  }
  return granted;
}

const Plan& Sequence::FinishDecision(Action action, std::vector<policy::KeptScores> kept) {
  FOLIO_CHECK(deciding_ && !plan_.has_value());
  kept_ = std::move(kept);
  deciding_ = false;
  ++last_plan_;
  return plan_.emplace(Plan{id_, last_plan_, std::move(action)});
}

void Sequence::ApplyPlan(PagePool& pool) {
  FOLIO_CHECK(plan_.has_value());
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    BlockTable& table = layers_[layer];
    PageList freed;
    if (const auto* compact = std::get_if<CompactAction>(&plan_->action)) {
      freed = table.Compact(compact->keep[layer], compact->spare[layer]);
      compacted_ = true;
    } else if (const auto block = std::get<DropAction>(plan_->action).block[layer]) {
      freed.push_back(table.Drop(*block));
      if (!kept_.empty()) kept_[layer].Drop(*block);
    }
    for (PageRef page : freed) pool.Release(page);
    evicted_pages_ += freed.size();
  }
  if (std::holds_alternative<CompactAction>(plan_->action)) kept_.clear();
  plan_.reset();
  reservation_.ResizeTo(PageCount(static_cast<uint32_t>(PagesPromised())));
}

void Sequence::Release(PagePool& pool) {
  for (BlockTable& table : layers_) {
    for (PageRef page : table.Clear()) pool.Release(page);
  }
  reservation_.ResizeTo(PageCount(0));
}

void Sequence::Quarantine(PagePool& pool) {
  for (BlockTable& table : layers_) {
    for (PageRef page : table.Clear()) pool.Quarantine(page, worker_);
  }
  reservation_.ResizeTo(PageCount(0));
}

uint64_t Sequence::held_pages() const {
  uint64_t held = 0;
  for (const BlockTable& table : layers_) held += table.pages().size();
  return held;
}

SequenceInfo Sequence::Info(absl::Time now) const {
  SequenceInfo info;
  info.id = id_;
  info.worker = worker_;
  info.label = notes_.label;
  info.state = orphaned_at_.has_value()           ? SequenceState::kOrphaned
               : plan_in_flight()                 ? SequenceState::kEvicting
               : logical_length_ < prompt_tokens_ ? SequenceState::kPrefill
                                                  : SequenceState::kDecode;
  info.cache = cache_;
  info.prompt_tokens = TokenCount(prompt_tokens_);
  info.max_new_tokens = TokenCount(max_new_tokens_);
  info.logical_length = TokenCount(logical_length_);
  TokenCount least(logical_length_);
  for (const BlockTable& table : layers_) {
    info.resident = std::max(info.resident, table.resident());
    least = std::min(least, table.resident());
  }
  info.held_pages = PageCount(static_cast<uint32_t>(held_pages()));
  info.reserved_pages = reservation_.count();
  info.evicted_tokens = TokenCount(logical_length_) - least;
  info.evicted_pages = PageCount(static_cast<uint32_t>(evicted_pages_));
  info.plan_epoch = last_plan_;
  info.lease_epoch = lease_epoch_;
  info.age = now - opened_;
  return info;
}

std::vector<LayerTableInfo> Sequence::Layers() const {
  std::vector<LayerTableInfo> layers;
  layers.reserve(layers_.size());
  for (const BlockTable& table : layers_) {
    layers.push_back({table.pages(), table.resident(), table.positions()});
  }
  return layers;
}

}  // namespace folio::cache
