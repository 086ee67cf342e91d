#include "services/cache/sequence.h"

#include <algorithm>
#include <utility>

#include "services/common/check.h"

namespace folio::cache {
namespace {

Footprint MakeFootprint(const OpenRequest& request, const policy::Policy& policy,
                        const CacheGeometry& geometry) {
  return {geometry.page_tokens, policy.evicts() ? request.cache.budget.value() : 0};
}

bool MustCompact(const OpenRequest& request, const policy::Policy& policy) {
  return policy.evicts() && request.prompt.size() > request.cache.budget.value();
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
      sampling_(request.sampling),
      label_(request.label),
      opened_(opened),
      prompt_tokens_(static_cast<uint32_t>(request.prompt.size())),
      max_new_tokens_(request.max_new_tokens.value()),
      footprint_(MakeFootprint(request, *policy_, geometry)),
      must_compact_(MustCompact(request, *policy_)),
      tokens_(request.prompt),
      layers_(geometry.num_layers, BlockTable(geometry.page_tokens)),
      reservation_(std::move(reservation)) {}

Sequence::~Sequence() { FOLIO_CHECK(held_pages() == 0 && !deciding_); }

uint64_t Sequence::PagesPerLayer(const OpenRequest& request, const policy::Policy& policy,
                                 const CacheGeometry& geometry) {
  const Footprint footprint = MakeFootprint(request, policy, geometry);
  const uint64_t prompt = request.prompt.size();
  const uint64_t remaining = request.max_new_tokens.value();
  // Compaction only ever shrinks a table, and what follows it fits what the prompt took.
  return MustCompact(request, policy) ? footprint.ForPrompt(prompt, remaining)
                                      : footprint.Ever(prompt, remaining);
}

bool Sequence::in_prompt() const {
  return logical_length_ < prompt_tokens_ || (must_compact_ && !compacted_);
}

uint64_t Sequence::remaining() const {
  return uint64_t{prompt_tokens_} + max_new_tokens_ - logical_length_;
}

uint64_t Sequence::PagesWanted(const BlockTable& table) const {
  if (in_prompt()) return footprint_.ForPrompt(prompt_tokens_, max_new_tokens_);
  return footprint_.Now(table.resident().value(), remaining());
}

uint64_t Sequence::PagesPromised(const BlockTable& table) const {
  if (must_compact_ && !compacted_) return footprint_.ForPrompt(prompt_tokens_, max_new_tokens_);
  return footprint_.Ever(table.resident().value(), remaining());
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
  LayerPageLists granted(layers_.size());
  bool any = false;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    BlockTable& table = layers_[layer];
    const uint64_t wanted = PagesWanted(table);
    while (table.pages().size() < wanted) {
      table.AddPage(pool.Take(reservation_));
      granted[layer].push_back(table.pages().back());
      any = true;
    }
  }
  if (!any) granted.clear();
  return granted;
}

DecisionInput Sequence::Snapshot(const float* board) const {
  DecisionInput input;
  input.sequence = id_;
  input.policy = policy_;
  input.limits = cache_.limits();
  input.page_tokens = geometry_.page_tokens;
  input.kv_heads = geometry_.num_kv_heads;
  input.compact = must_compact_ && !compacted_;
  if (input.compact) {
    const uint64_t budget = cache_.budget.value();
    input.spare = PageCount(static_cast<uint32_t>(footprint_.Now(budget, remaining()) -
                                                  budget / geometry_.page_tokens));
  }
  for (const BlockTable& table : layers_) {
    DecisionInput::Layer layer;
    layer.tokens = input.compact ? table.resident() : TokenCount(FullTokens(table));
    if (policy_->needs_scores()) {
      const uint32_t pages = geometry_.pages_for(layer.tokens.value());
      for (uint32_t block = 0; block < pages; ++block) {
        const size_t page = table.pages()[block].page.value();
        layer.pages.push_back(board + page * geometry_.scores_per_page());
      }
    }
    input.layers.push_back(std::move(layer));
  }
  return input;
}

std::optional<DecisionInput> Sequence::BeginDecision(const float* board) {
  if (!policy_->evicts() || plan_in_flight() || logical_length_ < prompt_tokens_) {
    return std::nullopt;
  }
  const bool compact = must_compact_ && !compacted_;
  const bool drop = std::any_of(layers_.begin(), layers_.end(), [&](const BlockTable& table) {
    return FullTokens(table) > cache_.budget.value();
  });
  if (!compact && !drop) return std::nullopt;
  deciding_ = true;
  return Snapshot(board);
}

const Plan& Sequence::FinishDecision(Action action) {
  FOLIO_CHECK(deciding_ && !plan_.has_value());
  deciding_ = false;
  ++last_plan_;
  return plan_.emplace(Plan{id_, last_plan_, std::move(action)});
}

void Sequence::ApplyPlan(PagePool& pool) {
  FOLIO_CHECK(plan_.has_value());
  uint64_t promised = 0;
  for (size_t layer = 0; layer < layers_.size(); ++layer) {
    BlockTable& table = layers_[layer];
    PageList freed;
    if (const auto* compact = std::get_if<CompactAction>(&plan_->action)) {
      freed = table.Compact(compact->keep[layer], compact->spare);
      compacted_ = true;
    } else {
      freed.push_back(table.Drop(std::get<DropAction>(plan_->action).block[layer]));
    }
    for (PageRef page : freed) pool.Release(page);
    evicted_pages_ += freed.size();
  }
  plan_.reset();
  for (const BlockTable& table : layers_) {
    const uint64_t held = table.pages().size();
    promised += std::max(PagesPromised(table), held) - held;
  }
  reservation_.ResizeTo(PageCount(static_cast<uint32_t>(promised)));
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
  info.label = label_;
  info.state = plan_in_flight()                   ? SequenceState::kEvicting
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
