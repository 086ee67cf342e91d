// The part of coordinator.h that gives pages to new sequences, and to parked ones in their turn.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "services/cache/budgets.h"
#include "services/cache/coordinator.h"
#include "services/cache/page_needs.h"
#include "services/cache/sequence_checks.h"
#include "services/cache/sequence_footprint.h"
#include "services/policy/cache_config.h"

namespace folio::cache {
namespace {

// Marks a status for MayFitLater. Nothing sends payloads to a peer.
constexpr absl::string_view kMayFitLater = "folio/may_fit_later";

absl::Status CheckRequest(const OpenRequest& request, const CoordinatorOptions& options) {
  const CacheGeometry& geometry = options.geometry;
  if (absl::Status valid = CheckSettings(request.cache, geometry); !valid.ok()) return valid;
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError("prompt_tokens is empty: give at least one token");
  }
  const uint64_t tokens = request.prompt.size() + uint64_t{request.max_new_tokens.value()};
  if (tokens > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_new_tokens ", request.max_new_tokens.value(), " and a prompt of ",
                     request.prompt.size(), " tokens exceed the longest sequence, ", UINT32_MAX,
                     " tokens: lower max_new_tokens"));
  }
  const policy::PolicyTraits& policy = request.cache.policy->traits();
  if (policy.needs_scores() && options.score_board == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("policy ", policy.name, " needs scores, and this pool has no score board"));
  }
  if (request.cache.compaction == policy::Compaction::kStreamed && !request.abilities.streams) {
    return absl::FailedPreconditionError(
        "compaction streamed needs a worker of version 0.2 or later, and this one is older: choose "
        "compaction whole or another worker");
  }
  return absl::OkStatus();
}

std::string DescribePages(uint64_t pages, const policy::CacheConfig& cache, uint32_t layers) {
  return absl::StrCat("wanted ", pages, " pages (", pages / layers,
                      cache.layer_budgets.empty() ? " in each of " : " on average in ", layers,
                      " layers)");
}

const char* AdviceFor(const OpenRequest& request, bool prompt_alone_is_too_long) {
  const policy::PolicyTraits& policy = request.cache.policy->traits();
  if (request.cache.compaction == policy::Compaction::kStreamed) {
    return "lower budget_tokens or compaction_stride_tokens";
  }
  const bool compacts = policy.evicts && request.prompt.size() > request.cache.budget.value();
  if (compacts && policy::CanStream(policy)) {
    return "choose compaction streamed, or shorten the prompt, which is held whole until its end";
  }
  if (compacts || prompt_alone_is_too_long) {
    return "shorten the prompt, which is held whole until its end";
  }
  return policy.evicts ? "lower budget_tokens or max_new_tokens"
                       : "lower max_new_tokens or choose a policy that evicts";
}

// Whether an empty pool would have room for the whole life of the sequence. So the last sequence
// that runs can always be finished, whatever the others had to give back.
absl::Status CheckEverFits(const OpenRequest& request, const CacheGeometry& geometry,
                           PageCount total) {
  const auto prompt = static_cast<uint32_t>(request.prompt.size());
  const uint64_t wanted =
      SequenceFootprint(request.cache, geometry, prompt, request.max_new_tokens.value(),
                        request.abilities.prefill_ahead)
          .WorstCase();
  if (wanted <= total.value()) return absl::OkStatus();
  const uint64_t whole = uint64_t{geometry.num_layers} * geometry.pages_for(prompt);
  return absl::ResourceExhaustedError(absl::StrCat(
      "never fits: ", DescribePages(wanted, request.cache, geometry.num_layers),
      ", the whole pool has ", total.value(), "; ", AdviceFor(request, whole > total.value()),
      ", or give the manager a larger pool"));
}

// Depends on the size of the pool and not on what it holds, so that a request always gives the same
// answer.
policy::Compaction ChooseCompaction(const OpenRequest& request, const CoordinatorOptions& options) {
  if (request.cache.compaction != policy::Compaction::kAutomatic) return request.cache.compaction;
  if (!request.abilities.streams || !policy::CanStream(request.cache.policy->traits())) {
    return policy::Compaction::kWhole;
  }
  if (options.default_compaction != policy::Compaction::kAutomatic) {
    return options.default_compaction;
  }
  policy::CacheConfig whole = request.cache;
  whole.compaction = policy::Compaction::kWhole;
  const SequenceFootprint footprint(
      whole, options.geometry, static_cast<uint32_t>(request.prompt.size()),
      request.max_new_tokens.value(), request.abilities.prefill_ahead);
  const bool fits = footprint.WorstCase() <= options.num_pages.value();
  return fits ? policy::Compaction::kWhole : policy::Compaction::kStreamed;
}

// A worker asks for a request that waits under another tag each time. One that cannot be resumed
// has no token, and two of them that look the same count as one while they wait.
std::string RequestKey(const SequenceRecord& record) {
  const SequenceMetadata& metadata = record.metadata;
  if (!metadata.resume_token.empty()) return metadata.resume_token;
  return absl::StrCat(record.worker.value(), " ", record.prompt_tokens, " ", record.max_new_tokens,
                      " ", metadata.label, " ", record.tenant);
}

// Whether its tenant may have the sequence, which is not open yet, beside those that are. The pages
// that they may come to need count, and not those that they hold, so that it does not matter how
// far they have come.
absl::Status CheckQuota(const TenantQuotas* quotas, const SequenceMap& sequences,
                        const SequenceRecord& wanted) {
  if (quotas == nullptr) return absl::OkStatus();
  const Quota quota = quotas->Of(wanted.tenant);
  if (!quota.limits()) return absl::OkStatus();
  uint32_t open = 0;
  uint64_t needed = 0;
  for (const auto& [id, sequence] : sequences) {
    if (sequence->record().tenant != wanted.tenant) continue;
    ++open;
    needed += Budgets(sequence->record()).WorstCase();
  }
  const uint64_t own = Budgets(wanted).WorstCase();
  const std::string has =
      absl::StrCat("quota of ", QuotaOwner(wanted.tenant), " (", QuotaText(quota), "): ");
  if (quota.pages.has_value() && own > quota.pages->value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(has, "never fits, because the sequence may come to need ", own,
                     " pages; lower max_new_tokens, or budget_tokens with a policy that evicts"));
  }
  if (quota.sequences.has_value() && open >= *quota.sequences) {
    return absl::ResourceExhaustedError(
        absl::StrCat(has, open, " are open; try again when one has ended"));
  }
  if (quota.pages.has_value() && needed + own > quota.pages->value()) {
    return absl::ResourceExhaustedError(absl::StrCat(has, open, " open sequences may come to need ",
                                                     needed, " pages, and this one ", own,
                                                     "; try again when one has ended"));
  }
  return quotas->CheckRate(wanted.tenant, RequestKey(wanted));
}

void CountRequest(const TenantQuotas* quotas, const SequenceRecord& record, bool waits) {
  if (quotas != nullptr) quotas->CountRequest(record.tenant, RequestKey(record), waits);
}

}  // namespace

bool MayFitLater(const absl::Status& status) { return status.GetPayload(kMayFitLater).has_value(); }

absl::Status Coordinator::FullForNow(const SequenceRecord& record, size_t before,
                                     SteadyTime now) const {
  const uint64_t in_grace = orphanage_.PagesInGrace(now);
  absl::Status full = absl::ResourceExhaustedError(absl::StrCat(
      "pool is full for now: ",
      DescribePages(PageNeeds(record).ToPromise(), record.cache, options_.geometry.num_layers),
      ", free ", pool_.free().value(), " (of these reserved ", pool_.reserved().value(),
      " for running sequences), held ", pool_.held().value(), " by ", sequences_.size(),
      " sequences",
      in_grace > 0 ? absl::StrCat(" (", in_grace, " pages wait for clients of lost workers)") : "",
      ", quarantined ", pool_.quarantined().value(),
      before > 0 ? absl::StrCat(", and ", before, " others wait before it") : "",
      "; room comes when sequences end", in_grace > 0 ? " or --orphan_grace is over" : "",
      pool_.quarantined().value() > 0 ? " or a fenced worker's process exits" : "",
      "; a shorter prompt, fewer max_new_tokens or a smaller budget_tokens needs less"));
  full.SetPayload(kMayFitLater, absl::Cord());
  return full;
}

// Each running sequence is about to need a page in each layer. Without this room, a sequence would
// be let in only for another to be parked.
uint64_t Coordinator::Headroom() const {
  uint64_t growing = 0;
  for (const auto& [id, sequence] : sequences_) {
    const SequenceRecord& record = sequence->record();
    const bool decodes = Runs(record) && !record.in_prompt();
    if (decodes && record.admission == Admission::kOptimistic) ++growing;
  }
  return growing * options_.geometry.num_layers;
}

absl::Status Coordinator::Admit(Sequence& sequence, const AdmissionLine::Asker& asker, bool waits,
                                std::vector<SequenceId>* ended) {
  const SteadyTime now = options_.clock->Now();
  const SequenceRecord& record = sequence.record();
  const uint64_t wanted = PageNeeds(record).ToPromise();
  const AdmissionLine::Claims claims = {record.due, record.tenant};
  const auto runs = [&](const auto& one) {
    const SequenceRecord& other = one.second->record();
    return other.worker == asker.worker && Runs(other);
  };
  const auto refuse = [&](size_t before) {
    mu_.AssertHeld();
    const bool steps = std::any_of(sequences_.begin(), sequences_.end(), runs);
    if (waits) line_.Wait(asker, claims, steps, now);
    return FullForNow(record, before, now);
  };
  const size_t before = line_.Before(asker, claims, now);
  if (before > 0 || preemption_.starving()) return refuse(before);
  const uint64_t room =
      wanted + (record.admission == Admission::kOptimistic ? Headroom() : uint64_t{0});
  if (room > pool_.available().value()) {
    *ended = orphanage_.MakeRoom(room, now);
    observer_.OnOrphansEnded(static_cast<uint32_t>(ended->size()));
  }
  if (room > pool_.available().value()) return refuse(0);
  line_.Leave(asker);
  sequence.Unpark(*pool_.Reserve(PageCount(static_cast<uint32_t>(wanted))));
  return absl::OkStatus();
}

absl::StatusOr<Opened> Coordinator::Open(OpenRequest request) {
  absl::Status valid = CheckRequest(request, options_);
  if (valid.ok()) {
    request.cache.compaction = ChooseCompaction(request, options_);
  }
  const SteadyTime now = options_.clock->Now();
  const bool optimistic = options_.admission == Admission::kOptimistic && request.abilities.parks;

  absl::MutexLock lock(&mu_);
  const auto refuse = [&](absl::Status why) {
    if (!request.waits_for_room || !MayFitLater(why)) observer_.OnRefused(why);
    return why;
  };
  if (absl::Status s = leases_.Renew(request.worker, now); !s.ok()) return refuse(s);
  if (!valid.ok()) return refuse(valid);
  if (absl::Status s = CheckEverFits(request, options_.geometry, pool_.total()); !s.ok()) {
    return refuse(s);
  }
  const SequenceId id = ids_.Sequence();
  auto sequence = std::make_unique<Sequence>(
      id, request, options_.geometry, optimistic ? Admission::kOptimistic : Admission::kReserve,
      now, options_.journal);
  if (absl::Status s = CheckQuota(options_.quotas, sequences_, sequence->record()); !s.ok())
    return refuse(s);
  Opened opened;
  if (absl::Status s =
          Admit(*sequence, {request.worker, std::nullopt}, request.waits_for_room, &opened.ended);
      !s.ok()) {
    if (request.waits_for_room) {
      CountRequest(options_.quotas, sequence->record(), /*waits=*/true);
    }
    return refuse(s);
  }
  CountRequest(options_.quotas, sequence->record(), /*waits=*/false);
  ids_.TakeSequence();
  opened.sequence = id;
  opened.lease_epoch = sequence->record().lease_epoch;
  opened.cache = request.cache;
  opened.pages = Grant(*sequence, options_.clock->Now());
  opened.scores = sequence->record().policy().scores;
  opened.prompt_scores = sequence->record().policy().prompt_scores;
  opened.scored_layers = request.cache.judges(options_.geometry.num_layers);
  sequences_.emplace(id, std::move(sequence));
  observer_.OnOpened(request.cache.policy->traits().name);
  return opened;
}

}  // namespace folio::cache
