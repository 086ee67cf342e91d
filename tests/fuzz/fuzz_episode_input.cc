// The requests of an episode's workers, and the scores they write.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <variant>
#include <vector>

#include "services/policy/registry.h"
#include "tests/fuzz/fuzz_episode.h"

namespace folio::cache {
namespace {

using Specs = std::array<policy::PolicySpec, std::variant_size_v<policy::PolicySpec>>;

// One spec of each policy, so that a new policy takes part without being named here.
template <size_t... kIndex>
Specs DefaultSpecs(std::index_sequence<kIndex...> /*all*/) {
  return {policy::PolicySpec(std::in_place_index<kIndex>)...};
}

}  // namespace

void Episode::SetParameters(policy::PolicySpec& spec) {
  if (auto* snap = std::get_if<policy::SnapKvSpec>(&spec)) *snap = {1};
  if (auto* random = std::get_if<policy::RandomSpec>(&spec)) random->seed = Pick(9);
  if (auto* crush = std::get_if<policy::KvCrushSpec>(&spec)) *crush = RandomCrush();
  if (auto* diff = std::get_if<policy::QueryDiffSpec>(&spec)) diff->options = {0.5F, 1, 3};
}

policy::KvCrushSpec Episode::RandomCrush() {
  const std::array<policy::KvCrushSpec::Base, 3> bases = {
      policy::PagedEvictionSpec(), policy::KeyDiffSpec(), policy::SnapKvSpec{1}};
  const std::array<float, 4> shares = {0.0F, 0.25F, 0.4F, 0.7F};
  return {.base = bases[Pick(3)],
          .options = {.share = shares[Pick(4)],
                      .anchor = static_cast<policy::CrushAnchor>(Pick(5)),
                      .seed = Pick(9)}};
}

LayerWindows Episode::RandomWindows() {
  if (OneIn(2)) return {};
  LayerWindows windows(1 + Pick(6 * page_tokens_), (1 + Pick(2)) * page_tokens_);
  windows.Add(Pick(layers_));
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    if (OneIn(2)) windows.Add(layer);
  }
  return windows;
}

OpenRequest Episode::RandomOpen() {
  const uint32_t p = page_tokens_;
  const bool grows = greedy_ && !OneIn(4);
  const uint32_t prompt = grows ? 1 + Pick(3 * p) : 1 + Pick((OneIn(4) ? 30 : 8) * p);
  OpenRequest request =
      Request(AnyWorker(), OneIn(50) ? 0 : prompt, Pick((grows ? 60 : 10) * p), FullCache());
  if (!OneIn(3)) request.metadata.resume_token = OneIn(9) ? "another" : "mine";
  request.abilities = RandomAbilities();
  request.waits_for_room = !OneIn(3);
  request.tenant = AnyTenant();
  request.urgency = {.priority = OneIn(2) ? 0 : static_cast<int32_t>(Pick(3)) - 1,
                     .waited = absl::Seconds(Pick(20))};
  if (OneIn(40)) request.max_new_tokens = TokenCount(UINT32_MAX - Pick(100));
  const uint32_t sink = Pick(3);
  const uint32_t recent = Pick(3);
  const uint32_t budget = OneIn(20) ? Pick(5) : std::max(1U, sink + recent + Pick(4));
  Specs specs = DefaultSpecs(std::make_index_sequence<std::variant_size_v<policy::PolicySpec>>());
  for (policy::PolicySpec& spec : specs) SetParameters(spec);
  const uint32_t spec = OneIn(3) ? Pick(3) : Pick(static_cast<uint32_t>(specs.size()));
  request.cache =
      Cache(specs[spec], spec == 0 && !OneIn(30) ? 0 : budget * p, sink * p, recent * p,
            OneIn(3) ? policy::EvictionMode::kSynchronous : policy::EvictionMode::kPipelined);
  if (spec != 0 && OneIn(3)) request.cache.budget += TokenCount(Pick(16) * p);  // to be lowered
  const bool shared = OneIn(3) && (spec != 0 || OneIn(20));
  if (shared) request.cache.layers = policy::Layers::kShared;
  if (spec != 0 && OneIn(shared ? 20 : 3)) {
    const size_t listed = OneIn(20) ? Pick(4) : harness_.geometry.num_layers;
    for (size_t layer = 0; layer < listed; ++layer) {
      const uint32_t pages = OneIn(50) ? 0 : std::max(1U, sink + recent + Pick(4));
      request.cache.layer_budgets.emplace_back(pages * p);
      coverage_.uneven += pages * p != request.cache.layer_budgets[0].value() ? 1 : 0;
    }
  }
  if (OneIn(3) && (spec != 0 || OneIn(20))) {
    policy::Shares& shares = request.cache.shares;
    const float most[] = {0.2F, 0.4F, OneIn(20) ? 1.0F : 0.5F};
    shares.prompt = OneIn(2) ? 0 : most[Pick(3)];
    shares.ends = OneIn(2) ? 0 : most[Pick(3)] / 2;
    shares.segments = OneIn(2) ? 1 : 1 + Pick(8);
    // Shares need room between them.
    if (!OneIn(4)) request.cache.budget += TokenCount(Pick(12) * p);
  }
  request.cache.compaction = static_cast<policy::Compaction>(Pick(3));
  request.cache.compaction_stride = TokenCount(OneIn(40) ? Pick(3) : (1 + Pick(5)) * p);
  if (OneIn(40)) request.cache.budget += TokenCount(1);
  if (OneIn(60)) request.cache.recent += TokenCount(1);
  // A journal has only settings that a client can ask for.
  if (record_ != nullptr && spec == 0) request.cache = Cache(policy::FullSpec(), 0, 0, 0);
  const std::vector<TokenCount>& listed = request.cache.layer_budgets;
  if (!listed.empty()) request.cache.budget = *std::max_element(listed.begin(), listed.end());
  return request;
}

CommitRequest Episode::GoodCommit(SequenceId id) {
  const ModelSequence& s = model_.sequences.at(id);
  CommitRequest commit;
  commit.worker = s.worker;
  commit.sequence = id;
  commit.lease_epoch = s.lease;
  uint64_t tokens = 0;
  if (s.logical < s.prompt) {
    const uint64_t most = std::min(s.StopBehind(s.logical) - s.logical, model_.Room(s));
    tokens = OneIn(3) ? most : Pick(static_cast<uint32_t>(most) + 1);
  } else {
    const uint64_t left = s.prompt + s.max_new - s.logical;
    const uint64_t most = std::min({left, model_.Room(s), uint64_t{2} * page_tokens_ + 1});
    tokens = OneIn(2) ? Pick(static_cast<uint32_t>(most) + 1) : std::min<uint64_t>(1, most);
    commit.filled = model_.Filled(s, tokens);
  }
  const uint64_t length = s.logical + tokens;
  commit.logical_length = TokenCount(static_cast<uint32_t>(length));
  const uint64_t known = length < s.prompt ? s.known : std::max(s.known, length + Pick(2));
  commit.sampled.assign(known - s.known, TokenId(Pick(100)));
  return commit;
}

void Episode::Break(CommitRequest& commit) {
  switch (Pick(8)) {
    case 0:
      commit.worker = AnyWorker();
      break;
    case 1:
      commit.sequence = SequenceId(Pick(2000));
      break;
    case 2:
      commit.lease_epoch = LeaseEpoch(Pick(4));
      break;
    case 3:
      commit.logical_length = TokenCount(Pick(20 * page_tokens_));
      break;
    case 4:
      commit.logical_length += TokenCount(1 + Pick(2 * page_tokens_));
      break;
    case 5:
      commit.sampled.resize(Pick(4));
      break;
    case 6:
      commit.filled.resize(Pick(4));
      break;
    default:
      if (commit.filled.empty()) break;
      PageRef& page = commit.filled[Pick(static_cast<uint32_t>(commit.filled.size()))];
      if (OneIn(2)) {
        page.page = PageId(Pick(pages_ + 1));
      } else {
        page.generation = Generation(Pick(5));
      }
  }
}

float Episode::RandomScore() {
  if (OneIn(200)) return std::numeric_limits<float>::quiet_NaN();
  if (OneIn(200)) return std::numeric_limits<float>::infinity();
  return static_cast<float>(Pick(6));
}

void Episode::WriteScores(const CommitRequest& commit) {
  const ModelSequence& s = model_.sequences.at(commit.sequence);
  const CacheGeometry& g = harness_.geometry;
  const ScoreTime time = s.cache.policy->traits().scores.time;
  for (const ModelLayer& layer : s.layers) {
    const uint64_t added = commit.logical_length.value() - s.logical;
    // Scores that are written for each decision are written again.
    uint64_t slot = time == ScoreTime::kDecision ? 0 : layer.positions.size();
    for (uint64_t end = layer.positions.size() + added; slot < end; ++slot) {
      const size_t token = size_t{layer.pages.at(slot / page_tokens_).page.value()} * page_tokens_ +
                           slot % page_tokens_;
      for (uint32_t head = 0; head < g.num_kv_heads; ++head) {
        harness_.board.at(token * g.num_kv_heads + head) = RandomScore();
        harness_.board.at(harness_.board.size() / 2 + token * g.num_kv_heads + head) =
            RandomScore();
      }
    }
  }
}

}  // namespace folio::cache
