#include "tests/fuzz/fuzz_episode.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace folio::cache {

std::string Episode::Run(uint64_t steps) {
  for (uint64_t step = 0; step < steps; ++step) {
    std::string wrong = Step();
    if (wrong.empty()) wrong = Compare();
    if (!wrong.empty()) return absl::StrCat("step ", step, ": ", wrong);
  }
  return End();
}

std::string Episode::Step() {
  const uint32_t kind = Pick(1000);
  if (kind < 4 || model_.workers.empty()) return AddWorker();
  if (kind < 6) return EndWorker();
  if (kind < 8) return LetTimePass();
  if (kind < 20) return Renew();
  if (kind < 80 || model_.sequences.empty()) return Open();
  if (kind < 100) return Close();
  if (kind < 260) return Ack();
  return Commit();
}

std::string Episode::Compare() {
  if (absl::Status s = rig_.coordinator->CheckInvariants(); !s.ok()) {
    return std::string(s.message());
  }
  std::string wrong = model_.CompareTotals(rig_.coordinator->pool());
  if (!wrong.empty() || model_.sequences.empty()) return wrong;
  const absl::StatusOr<SequenceDetail> detail = rig_.coordinator->sequence(AnySequence());
  return detail.ok() ? model_.CompareSequence(*detail) : detail.status().ToString();
}

std::string Episode::End() {
  while (!model_.workers.empty()) {
    const WorkerId worker = model_.workers.begin()->first;
    rig_.coordinator->ProveGone(worker);
    model_.Fence(worker, /*quiesced=*/true);
  }
  const PoolInfo pool = rig_.coordinator->pool();
  if (pool.free != pool.total) return "pages are missing at the end";
  return Compare();
}

std::string Episode::Expect(absl::StatusCode expected, const absl::Status& got, const char* call) {
  ++coverage_.status[static_cast<size_t>(got.code())];
  if (got.code() == expected) return "";
  return absl::StrCat(call, ": expected ", absl::StatusCodeToString(expected), ", got ",
                      got.ToString());
}

SequenceId Episode::AnySequence() {
  auto it = model_.sequences.begin();
  std::advance(it, Pick(static_cast<uint32_t>(model_.sequences.size())));
  return it->first;
}

WorkerId Episode::AnyWorker() {
  if (OneIn(40)) return WorkerId(Pick(30));
  auto it = model_.workers.begin();
  std::advance(it, Pick(static_cast<uint32_t>(model_.workers.size())));
  return it->first;
}

std::string Episode::AddWorker() {
  if (model_.workers.size() < 5) model_.AddWorker(rig_.coordinator->AddWorker("w"));
  return "";
}

std::string Episode::EndWorker() {
  const WorkerId worker = AnyWorker();
  const uint32_t kind = Pick(3);
  if (kind == 0) {
    rig_.coordinator->FenceWorker(worker, /*quiesced=*/false);
    ++coverage_.deaths;
  } else if (kind == 1) {
    rig_.coordinator->FenceWorker(worker, /*quiesced=*/true);
    ++coverage_.goodbyes;
  } else {
    rig_.coordinator->ProveGone(worker);
  }
  model_.Fence(worker, kind != 0);
  return "";
}

std::string Episode::LetTimePass() {
  const int64_t seconds = OneIn(2) ? Pick(16) : Pick(5);
  rig_.clock.Advance(absl::Seconds(seconds));
  const std::vector<WorkerId> expected = model_.Expire(seconds);
  coverage_.expiries += expected.size();
  return rig_.coordinator->FenceExpired() == expected ? "" : "other workers expired";
}

std::string Episode::Renew() {
  const WorkerId worker = AnyWorker();
  const auto it = model_.workers.find(worker);
  const auto expected = it == model_.workers.end() ? absl::StatusCode::kNotFound
                        : it->second == CacheModel::WorkerState::kFenced
                            ? absl::StatusCode::kFailedPrecondition
                            : absl::StatusCode::kOk;
  model_.Heard(worker);
  return Expect(expected, rig_.coordinator->Renew(worker), "Renew");
}

OpenRequest Episode::RandomOpen() {
  const uint32_t p = page_tokens_;
  OpenRequest request =
      Request(AnyWorker(), OneIn(50) ? 0 : 1 + Pick(8 * p), Pick(10 * p), FullCache());
  if (OneIn(40)) request.max_new_tokens = TokenCount(UINT32_MAX - Pick(100));
  const uint32_t sink = Pick(3);
  const uint32_t recent = Pick(3);
  const uint32_t budget = OneIn(20) ? Pick(5) : std::max(1U, sink + recent + Pick(4));
  const std::array<policy::PolicySpec, 9> specs = {policy::FullSpec(),
                                                   policy::PagedEvictionSpec(),
                                                   policy::StreamingLlmSpec(),
                                                   policy::InverseKeyNormSpec(),
                                                   policy::KeyDiffSpec(),
                                                   policy::SnapKvSpec{1},
                                                   policy::RandomSpec{Pick(9)},
                                                   policy::KvCrushSpec{.options = {.share = 0.0F}},
                                                   policy::QueryDiffSpec{{0.5F, 1, 3}}};
  const uint32_t spec = OneIn(3) ? Pick(3) : Pick(9);
  request.cache =
      Cache(specs[spec], spec == 0 && !OneIn(30) ? 0 : budget * p, sink * p, recent * p,
            OneIn(3) ? policy::EvictionMode::kSynchronous : policy::EvictionMode::kPipelined);
  if (spec != 0 && OneIn(3)) {
    const size_t listed = OneIn(20) ? Pick(4) : rig_.geometry.num_layers;
    for (size_t layer = 0; layer < listed; ++layer) {
      const uint32_t pages = OneIn(50) ? 0 : std::max(1U, sink + recent + Pick(4));
      request.cache.layer_budgets.emplace_back(pages * p);
      coverage_.uneven += pages * p != request.cache.layer_budgets[0].value() ? 1 : 0;
    }
  }
  if (OneIn(40)) request.cache.budget += TokenCount(1);
  if (OneIn(60)) request.cache.recent += TokenCount(1);
  return request;
}

std::string Episode::Open() {
  const OpenRequest request = RandomOpen();
  model_.Heard(request.worker);
  const absl::StatusOr<Opened> opened = rig_.coordinator->Open(request);
  std::string wrong = Expect(model_.ExpectOpen(request), opened.status(), "Open");
  if (!wrong.empty() || !opened.ok()) return wrong;
  return model_.DidOpen(request, *opened);
}

CommitRequest Episode::GoodCommit(SequenceId id) {
  const ModelSequence& s = model_.sequences.at(id);
  CommitRequest commit;
  commit.worker = s.worker;
  commit.sequence = id;
  commit.lease_epoch = LeaseEpoch(1);
  uint64_t tokens = 0;
  if (s.logical < s.prompt) {
    tokens = Pick(static_cast<uint32_t>(s.prompt - s.logical) + 1);
  } else {
    const uint64_t left = s.prompt + s.max_new - s.logical;
    const uint64_t most = std::min({left, model_.Room(s), uint64_t{2} * page_tokens_ + 1});
    tokens = OneIn(4) ? Pick(static_cast<uint32_t>(most) + 1) : std::min<uint64_t>(1, most);
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
  const CacheGeometry& g = rig_.geometry;
  for (const ModelLayer& layer : s.layers) {
    uint64_t slot = layer.positions.size();
    for (uint64_t p = s.logical; p < commit.logical_length.value(); ++p, ++slot) {
      const size_t token = size_t{layer.pages.at(slot / page_tokens_).page.value()} * page_tokens_ +
                           slot % page_tokens_;
      for (uint32_t head = 0; head < g.num_kv_heads; ++head) {
        rig_.board.at(token * g.num_kv_heads + head) = RandomScore();
      }
    }
  }
}

void Episode::Note(const Outcome& outcome) {
  coverage_.grants += outcome.granted.empty() ? 0 : 1;
  if (!outcome.plan.has_value()) return;
  const bool compact = std::holds_alternative<CompactAction>(outcome.plan->action);
  ++(compact ? coverage_.compactions : coverage_.drops);
}

std::string Episode::Commit() {
  CommitRequest commit = GoodCommit(AnySequence());
  if (OneIn(12)) Break(commit);
  const absl::StatusCode expected = model_.ExpectCommit(commit);
  if (expected == absl::StatusCode::kOk) {
    WriteScores(commit);
    if (model_.sequences.at(commit.sequence).plan.has_value()) {
      ++coverage_.commits_beside_a_plan;
    }
  }
  model_.Heard(commit.worker);
  const absl::StatusOr<Outcome> outcome = rig_.coordinator->Commit(commit);
  std::string wrong = Expect(expected, outcome.status(), "Commit");
  if (!wrong.empty() || !outcome.ok()) return wrong;
  Note(*outcome);
  return model_.DidCommit(commit, *outcome);
}

std::string Episode::Ack() {
  const SequenceId id = OneIn(60) ? SequenceId(Pick(2000)) : AnySequence();
  const auto it = model_.sequences.find(id);
  const bool known = it != model_.sequences.end();
  const WorkerId worker = known && !OneIn(30) ? it->second.worker : AnyWorker();
  const LeaseEpoch lease(OneIn(30) ? Pick(4) : 1);
  const PlanEpoch plan(known && !OneIn(20) ? it->second.plans : Pick(20));
  const absl::StatusCode expected = model_.ExpectAck(worker, id, lease, plan);
  model_.Heard(worker);
  const absl::StatusOr<Outcome> outcome = rig_.coordinator->Ack(worker, id, lease, plan);
  std::string wrong = Expect(expected, outcome.status(), "Ack");
  if (!wrong.empty() || !outcome.ok()) return wrong;
  ++coverage_.acks;
  coverage_.plans_upon_ack += outcome->plan.has_value() ? 1 : 0;
  Note(*outcome);
  return model_.DidAck(id, *outcome);
}

std::string Episode::Close() {
  const SequenceId id = OneIn(20) ? SequenceId(Pick(2000)) : AnySequence();
  const auto it = model_.sequences.find(id);
  const bool known = it != model_.sequences.end();
  const WorkerId worker = known && !OneIn(20) ? it->second.worker : AnyWorker();
  const LeaseEpoch lease(OneIn(20) ? Pick(4) : 1);
  const absl::StatusCode expected = model_.ExpectClose(worker, id, lease);
  model_.Heard(worker);
  const absl::Status closed = rig_.coordinator->Close(worker, id, lease);
  std::string wrong = Expect(expected, closed, "Close");
  if (!wrong.empty() || !closed.ok()) return wrong;
  ++coverage_.closes;
  model_.DidClose(id);
  return "";
}

}  // namespace folio::cache
