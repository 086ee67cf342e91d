#include "tests/fuzz/fuzz_episode.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"

namespace folio::cache {

std::string Episode::Run(uint64_t steps) {
  for (uint64_t step = 0; step < steps; ++step) {
    std::string wrong = Step();
    if (wrong.empty()) wrong = Compare();
    if (wrong.empty() && record_ != nullptr) wrong = record_->AfterStep(Workers());
    if (!wrong.empty()) return absl::StrCat("step ", step, ": ", wrong);
  }
  return End();
}

std::string Episode::Step() {
  if (model_.HasOrphans() && !model_.workers.empty() && OneIn(25)) return Claim();
  const uint32_t kind = Pick(1000);
  if (kind < 4 || model_.workers.empty()) return AddWorker();
  if (OneIn(150)) SetQuota();
  if (kind < 6) return EndWorker();
  if (kind < 8) return OneIn(record_ == nullptr ? 8 : 2) ? Restart() : LetTimePass();
  if (kind < 20) return Renew();
  if (kind >= 992) return Steer();
  if (kind < 24 && !model_.sequences.empty()) return Claim();
  if (kind < 80 || model_.sequences.empty()) return Open();
  if (kind < 90) return Close();
  if (kind < 260) return Ack();
  if (kind < 290) return Attend(AnyWorker());
  if (kind < 350) return Park();
  if (kind < 390) return Unpark();
  std::string wrong = Commit();
  // A worker is told of a shortage with the answer to its commit, more often than not.
  return wrong.empty() && OneIn(2) ? Attend(AnyWorker()) : wrong;
}

std::string Episode::Compare() {
  if (absl::Status s = harness_.inspector().CheckInvariants(); !s.ok()) {
    return std::string(s.message());
  }
  if (!harness_.journal.error().ok()) return harness_.journal.error().ToString();
  if (harness_.journal.sequences().size() != model_.sequences.size()) {
    return "the journal has other sequences";
  }
  std::string wrong = model_.CompareTotals(harness_.inspector().pool());
  if (!wrong.empty() || model_.sequences.empty()) return wrong;
  if (OneIn(16)) {
    // A dry run, of its own policy or another, must not disturb what is kept for the next decision.
    auto other = Cache(policy::InverseKeyNormSpec(), (1 + Pick(8)) * page_tokens_, 0, 0);
    if (OneIn(2)) other.layers = policy::Layers::kShared;
    if (OneIn(2)) other.shares = {.prompt = 0.5F, .ends = 0.1F * Pick(3), .segments = 1 + Pick(5)};
    const absl::Status status =
        OneIn(2) ? harness_.inspector().Explain(AnySequence(), std::nullopt).status()
                 : harness_.inspector().Explain(AnySequence(), other).status();
    const bool refused = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
    if (!status.ok() && !refused) return status.ToString();
  }
  const absl::StatusOr<SequenceDetail> detail = harness_.inspector().sequence(AnySequence());
  return detail.ok() ? model_.CompareSequence(*detail) : detail.status().ToString();
}

std::string Episode::End() {
  while (!model_.workers.empty()) {
    const WorkerId worker = model_.workers.begin()->first;
    harness_.coordinator->ConfirmExited(worker);
    model_.Fence(worker, /*quiesced=*/true);
  }
  harness_.clock.Advance(absl::Seconds(orphan_seconds_));
  model_.Expire(orphan_seconds_);
  if (harness_.coordinator->EndExpiredOrphans() != model_.EndExpiredOrphans()) {
    return "orphans outlive everybody";
  }
  coverage_.given_up += model_.given_up.size();
  coverage_.regained += model_.regained;
  coverage_.turns += model_.turns;
  coverage_.idle += model_.idle;
  coverage_.windows_moved += model_.windows_moved;
  const PoolInfo pool = harness_.inspector().pool();
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
  if (model_.workers.size() < 5) model_.AddWorker(harness_.coordinator->AddWorker("w"));
  return "";
}

std::string Episode::EndWorker() {
  const WorkerId worker = AnyWorker();
  const uint32_t kind = Pick(3);
  if (kind == 0) {
    harness_.coordinator->FenceWorker(worker, /*quiesced=*/false);
    ++coverage_.deaths;
  } else if (kind == 1) {
    harness_.coordinator->FenceWorker(worker, /*quiesced=*/true);
    ++coverage_.goodbyes;
  } else {
    harness_.coordinator->ConfirmExited(worker);
  }
  model_.Fence(worker, kind != 0);
  return "";
}

std::vector<WorkerId> Episode::Workers() const {
  std::vector<WorkerId> workers;
  for (const auto& [worker, state] : model_.workers) workers.push_back(worker);
  return workers;
}

std::string Episode::Restart() {
  const bool has_contents = !OneIn(4);
  SavedCache saved = harness_.journal.Take(Workers());
  if (record_ != nullptr) {
    absl::StatusOr<SavedCache> read = record_->Die(saved);
    if (!read.ok()) return read.status().ToString();
    saved = *std::move(read);
    harness_.options.journal = &record_->journal();
  }
  const Restored restored = harness_.Continue(std::move(saved), has_contents);
  if (record_ != nullptr) record_->AfterRestart(has_contents);
  if (restored.has_contents != has_contents) return "the record was not believed";
  ++coverage_.restarts;
  coverage_.kept += restored.kept;
  coverage_.again += restored.again;
  model_.Restart(has_contents);
  coverage_.given_up += std::exchange(model_.given_up, {}).size();
  for (const auto& [id, s] : model_.sequences) coverage_.plans_kept += s.plan.has_value() ? 1 : 0;
  // Each decision was made in the step that made it due.
  if (Restoration(*harness_.coordinator).Decide() != 0) return "a decision was owed";
  return "";
}

std::string Episode::LetTimePass() {
  const int64_t seconds = OneIn(2) ? Pick(16) : Pick(5);
  harness_.clock.Advance(absl::Seconds(seconds));
  const std::vector<WorkerId> expected = model_.Expire(seconds);
  coverage_.expiries += expected.size();
  if (harness_.coordinator->FenceExpired() != expected) return "other workers expired";
  const std::vector<SequenceId> ended = model_.EndExpiredOrphans();
  coverage_.orphans_expired += ended.size();
  return harness_.coordinator->EndExpiredOrphans() == ended ? "" : "other orphans expired";
}

std::string Episode::Renew() {
  const WorkerId worker = AnyWorker();
  const auto it = model_.workers.find(worker);
  const auto expected = it == model_.workers.end() ? absl::StatusCode::kNotFound
                        : it->second == CacheModel::WorkerState::kFenced
                            ? absl::StatusCode::kFailedPrecondition
                            : absl::StatusCode::kOk;
  model_.Heard(worker);
  if (OneIn(2)) return Expect(expected, harness_.coordinator->Renew(worker), "Renew");
  const uint32_t in_flight = OneIn(2) ? 0 : Pick(6);
  if (expected == absl::StatusCode::kOk) model_.in_flight[worker] = in_flight;
  const StepProgress progress = {.in_flight_ms = 1000 * in_flight};
  return Expect(expected, harness_.coordinator->Renew(worker, progress), "Renew");
}

std::string Episode::Claim() {
  ClaimRequest request;
  request.worker = AnyWorker();
  request.abilities = RandomAbilities();
  request.sequence = OneIn(40) ? SequenceId(Pick(2000)) : AnySequence();
  for (const auto& [id, s] : model_.sequences) {
    if (s.orphaned.has_value() && OneIn(2)) request.sequence = id;
  }
  const auto it = model_.sequences.find(request.sequence);
  if (it != model_.sequences.end()) request.resume_token = it->second.token;
  if (OneIn(20)) request.resume_token = OneIn(2) ? "" : "another";
  if (OneIn(3)) request.tenant = AnyTenant();
  const absl::StatusCode expected = model_.ExpectClaim(request);
  model_.Heard(request.worker);
  const absl::StatusOr<Claimed> claimed = harness_.coordinator->Claim(request);
  std::string wrong = Expect(expected, claimed.status(), "Claim");
  if (absl::IsResourceExhausted(claimed.status())) model_.DidNotClaim(request);
  if (!wrong.empty() || !claimed.ok()) return wrong;
  ++coverage_.claims;
  coverage_.swapped_claims += claimed->layers[0].slots.empty() ? 0 : 1;
  coverage_.parked_claims += model_.sequences.at(request.sequence).parked ? 1 : 0;
  coverage_.claims_beside_a_plan += claimed->plan.has_value() ? 1 : 0;
  wrong = model_.DidClaim(request, *claimed);
  return wrong.empty() && OneIn(6) ? LoseInVain(request) : wrong;
}

std::string Episode::LoseInVain(ClaimRequest request) {
  for (int losses = 0; losses < 2; ++losses) {
    harness_.coordinator->ConfirmExited(request.worker);
    model_.Fence(request.worker, /*quiesced=*/true);
    request.worker = harness_.coordinator->AddWorker("next");
    model_.AddWorker(request.worker);
    const absl::StatusCode expected = model_.ExpectClaim(request);
    const absl::StatusOr<Claimed> claimed = harness_.coordinator->Claim(request);
    std::string wrong = Expect(expected, claimed.status(), "Claim after a loss");
    if (absl::IsResourceExhausted(claimed.status())) model_.DidNotClaim(request);
    const bool swapped = claimed.ok() && !claimed->layers[0].slots.empty();
    coverage_.swapped_claims += swapped ? 1 : 0;
    if (wrong.empty() && claimed.ok()) wrong = model_.DidClaim(request, *claimed);
    if (!wrong.empty() || !claimed.ok()) return wrong;
  }
  return "";
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
      const ModelSequence& s = model_.sequences.at(commit.sequence);
      const bool grows = commit.logical_length.value() > s.logical;
      coverage_.decodes_in_a_fall += grows && s.synchronous() ? 1 : 0;
    }
  }
  model_.Heard(commit.worker);
  const absl::StatusOr<Outcome> outcome = cache::Commit(*harness_.coordinator, commit);
  std::string wrong = Expect(expected, outcome.status(), "Commit");
  if (!wrong.empty() || !outcome.ok()) return wrong;
  Note(*outcome);
  const ModelSequence& s = model_.sequences.at(commit.sequence);
  coverage_.streamed += commit.logical_length.value() < s.prompt && outcome->plan.has_value();
  return model_.DidCommit(commit, *outcome);
}

std::string Episode::Ack() {
  const SequenceId id = OneIn(60) ? SequenceId(Pick(2000)) : AnySequence();
  const auto it = model_.sequences.find(id);
  const bool known = it != model_.sequences.end();
  const WorkerId worker = known && !OneIn(30) ? it->second.worker : AnyWorker();
  const LeaseEpoch lease = known && !OneIn(30) ? it->second.lease : LeaseEpoch(Pick(4));
  const PlanEpoch plan(known && !OneIn(20) ? it->second.plans : Pick(20));
  const absl::StatusCode expected = model_.ExpectAck(worker, id, lease, plan);
  model_.Heard(worker);
  const absl::StatusOr<Outcome> outcome =
      cache::Ack(*harness_.coordinator, worker, {id, lease, plan});
  std::string wrong = Expect(expected, outcome.status(), "Ack");
  if (!wrong.empty() || !outcome.ok()) return wrong;
  ++coverage_.acks;
  const ModelFall before = it->second.fall;
  coverage_.plans_upon_ack += outcome->plan.has_value() ? 1 : 0;
  Note(*outcome);
  wrong = model_.DidAck(id, *outcome);
  if (before.active() && !it->second.fall.active()) ++coverage_.fallen;
  coverage_.falls_in_steps += before.plans > 0 && it->second.fall.active() ? 1 : 0;
  return wrong;
}

std::string Episode::Close() {
  const SequenceId id = OneIn(20) ? SequenceId(Pick(2000)) : AnySequence();
  const auto it = model_.sequences.find(id);
  const bool known = it != model_.sequences.end();
  const WorkerId worker = known && !OneIn(20) ? it->second.worker : AnyWorker();
  const LeaseEpoch lease = known && !OneIn(20) ? it->second.lease : LeaseEpoch(Pick(4));
  const absl::StatusCode expected = model_.ExpectClose(worker, id, lease);
  model_.Heard(worker);
  const absl::Status closed = harness_.coordinator->Close(worker, id, lease);
  std::string wrong = Expect(expected, closed, "Close");
  if (!wrong.empty() || !closed.ok()) return wrong;
  ++coverage_.closes;
  model_.DidClose(id);
  return "";
}

}  // namespace folio::cache
