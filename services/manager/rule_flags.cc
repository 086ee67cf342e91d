// The flags of folio-manager about which sequences get pages, and how long they keep them.
#include "services/manager/rule_flags.h"

#include <string>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "services/cache/decision_threads.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/flags.h"

ABSL_FLAG(
    std::string, default_compaction, "auto",
    "when prompts above their budget are compacted, if their requests do not say. whole: at their "
    "end, so the pool must have room for all of them. streamed: also while they are computed, so "
    "none holds more than its budget and a stride, if the policy can. auto: whole where the whole "
    "pool has room for the prompt, else streamed");
ABSL_FLAG(
    std::string, admission, "optimistic",
    "how many pages a sequence is promised when it starts. optimistic: those of its prompt, and "
    "when the pool runs dry the sequence that came last waits and is computed again. reserve: all "
    "that it can ever need, so that nothing is computed twice, but fewer sequences run at a time");
ABSL_FLAG(folio::ByteSize, host_swap_bytes, {},
          "memory of the host for sequences that wait because the pool has run dry, such as 8GiB, "
          "for all ranks together. Their pages are copied there and back, and what finds no room "
          "is computed again. 0: all of them are computed again");
ABSL_FLAG(
    absl::Duration, lease_ttl, absl::Seconds(10),
    "how long a worker that sends nothing keeps its sequences, from 100ms to 1h, such as 10s");
ABSL_FLAG(
    absl::Duration, orphan_ttl, absl::Seconds(60),
    "how long a sequence whose worker was lost keeps its pages, so that another worker can "
    "continue it, unless other sequences need them; from 0 (it ends at once) to 24h, such as 60s");
ABSL_FLAG(absl::Duration, orphan_grace, absl::Seconds(15),
          "how long such a sequence keeps its pages even if other sequences need them, from the "
          "moment when another worker may continue it; from 0 to 24h, such as 15s");
ABSL_FLAG(
    std::string, clear_pages, "between_tenants",
    "when workers overwrite pages with zeros before they use them: always, never, or "
    "between_tenants. The last is as soon as sequences of a second tenant have used the pool, so "
    "that none can come upon the keys and values of another");

namespace folio::manager {

const char* AdmissionName(cache::Admission admission) {
  return admission == cache::Admission::kOptimistic ? "optimistic" : "reserve";
}

const char* ClearPagesName(cache::ClearPages rule) {
  switch (rule) {
    case cache::ClearPages::kNever:
      return "never";
    case cache::ClearPages::kBetweenTenants:
      return "between_tenants";
    case cache::ClearPages::kAlways:
      break;
  }
  return "always";
}

namespace {

absl::StatusOr<policy::Compaction> ReadCompaction() {
  const std::string given = absl::GetFlag(FLAGS_default_compaction);
  if (given == "auto") return policy::Compaction::kAutomatic;
  if (given == "whole") return policy::Compaction::kWhole;
  if (given == "streamed") return policy::Compaction::kStreamed;
  return BadFlag("default_compaction", given, "give auto, whole or streamed");
}

absl::StatusOr<cache::Admission> ReadAdmission() {
  const std::string given = absl::GetFlag(FLAGS_admission);
  for (const cache::Admission known : {cache::Admission::kOptimistic, cache::Admission::kReserve}) {
    if (given == AdmissionName(known)) return known;
  }
  return BadFlag("admission", given, "give optimistic or reserve");
}

absl::StatusOr<cache::ClearPages> ReadClearPages() {
  const std::string given = absl::GetFlag(FLAGS_clear_pages);
  for (const cache::ClearPages known :
       {cache::ClearPages::kNever, cache::ClearPages::kBetweenTenants,
        cache::ClearPages::kAlways}) {
    if (given == ClearPagesName(known)) return known;
  }
  return BadFlag("clear_pages", given, "give between_tenants, always or never");
}

absl::StatusOr<uint64_t> ReadHostSwap(cache::Admission admission) {
  const ByteSize given = absl::GetFlag(FLAGS_host_swap_bytes);
  if (given.bytes == 0 || admission == cache::Admission::kOptimistic) return given.bytes;
  return BadFlag("host_swap_bytes", FormatByteSize(given),
                 "is of use with --admission=optimistic alone, as no pool runs dry with reserve");
}

}  // namespace

absl::StatusOr<PoolRules> ReadPoolRules() {
  PoolRules rules;
  auto compaction = ReadCompaction();
  if (!compaction.ok()) return compaction.status();
  rules.default_compaction = *compaction;
  auto admission = ReadAdmission();
  if (!admission.ok()) return admission.status();
  rules.admission = *admission;
  auto swap = ReadHostSwap(*admission);
  if (!swap.ok()) return swap.status();
  rules.host_swap_bytes = *swap;
  auto clear_pages = ReadClearPages();
  if (!clear_pages.ok()) return clear_pages.status();
  rules.clear_pages = *clear_pages;
  rules.lease_ttl = absl::GetFlag(FLAGS_lease_ttl);
  rules.orphan_ttl = absl::GetFlag(FLAGS_orphan_ttl);
  rules.orphan_grace = absl::GetFlag(FLAGS_orphan_grace);
  rules.decision_threads = cache::DefaultDecisionThreads();
  for (const absl::Status& status :
       {CheckFlagRange("lease_ttl", rules.lease_ttl, absl::Milliseconds(100), absl::Hours(1)),
        CheckFlagRange("orphan_ttl", rules.orphan_ttl, absl::ZeroDuration(), absl::Hours(24)),
        CheckFlagRange("orphan_grace", rules.orphan_grace, absl::ZeroDuration(),
                       absl::Hours(24))}) {
    if (!status.ok()) return status;
  }
  return rules;
}

}  // namespace folio::manager
