#include "services/manager/event_metrics.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_replace.h"
#include "services/policy/registry.h"

namespace folio::manager {
namespace {

// Seconds. A decision takes tens of microseconds for a block and milliseconds for a long prompt.
const prometheus::Histogram::BucketBoundaries kDecisionBuckets = {
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5, 1};

// Reasons for which a worker is fenced, as labels.
constexpr const char* kFenceReasons[] = {"session_ended", "lease_ran_out", "process_ended"};

prometheus::Family<prometheus::Counter>& Counters(prometheus::Registry& registry, const char* name,
                                                  const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
}

template <size_t... Index>
std::vector<policy::PolicyTraits> TraitsOfAll(std::index_sequence<Index...> /*of*/) {
  return {policy::MakePolicy(policy::PolicySpec(std::in_place_index<Index>))->traits()...};
}

std::vector<policy::PolicyTraits> AllPolicies() {
  return TraitsOfAll(std::make_index_sequence<std::variant_size_v<policy::PolicySpec>>());
}

}  // namespace

EventMetrics::EventMetrics()
    : registry_(std::make_shared<prometheus::Registry>()),
      opened_(Counters(*registry_, "folio:sequences_opened_total",
                       "Sequences opened, by eviction policy.")),
      refused_(Counters(*registry_, "folio:sequences_refused_total",
                        "Sequences that were not opened, by the code of the error. "
                        "RESOURCE_EXHAUSTED means that the pool had no room.")),
      evictions_(Counters(*registry_, "folio:evictions_total",
                          "Plans that workers carried out, by eviction policy. A plan compacts a "
                          "prompt or drops a page of each layer.")),
      evicted_pages_(Counters(*registry_, "folio:evicted_pages_total",
                              "Pages that became free by evictions, by eviction policy.")),
      fenced_(Counters(*registry_, "folio:fenced_workers_total",
                       "Workers whose lease ended for good, by reason. An orderly end is "
                       "session_ended too.")),
      decisions_(prometheus::BuildHistogram()
                     .Name("folio:decision_seconds")
                     .Help("Time in which a policy chose what to evict, by eviction policy.")
                     .Register(*registry_)),
      orphaned_(Counters(*registry_, "folio:sequences_orphaned_total",
                         "Sequences whose worker was lost and that waited for another one.")
                    .Add({})),
      claimed_(Counters(*registry_, "folio:sequences_claimed_total",
                        "Orphans that another worker took over.")
                   .Add({})),
      orphans_ended_(Counters(*registry_, "folio:orphans_ended_total",
                              "Orphans that ended because no worker took them over in time, or "
                              "because others needed their pages.")
                         .Add({})) {
  for (const policy::PolicyTraits& policy : AllPolicies()) {
    opened_.Add({{"policy", policy.name}});
    if (!policy.evicts) continue;
    evictions_.Add({{"policy", policy.name}});
    evicted_pages_.Add({{"policy", policy.name}});
    decisions_.Add({{"policy", policy.name}}, kDecisionBuckets);
  }
  refused_.Add({{"code", absl::StatusCodeToString(absl::StatusCode::kResourceExhausted)}});
  for (const char* reason : kFenceReasons) fenced_.Add({{"reason", reason}});
}

void EventMetrics::OnOpened(const std::string& policy) {
  opened_.Add({{"policy", policy}}).Increment();
}

void EventMetrics::OnRefused(const absl::Status& why) {
  refused_.Add({{"code", absl::StatusCodeToString(why.code())}}).Increment();
}

void EventMetrics::OnOrphaned(uint32_t sequences) { orphaned_.Increment(sequences); }

void EventMetrics::OnClaimed() { claimed_.Increment(); }

void EventMetrics::OnOrphansEnded(uint32_t sequences) { orphans_ended_.Increment(sequences); }

void EventMetrics::OnDecided(const std::string& policy, absl::Duration took) {
  decisions_.Add({{"policy", policy}}, kDecisionBuckets).Observe(absl::ToDoubleSeconds(took));
}

void EventMetrics::OnEvicted(const std::string& policy, uint64_t pages) {
  evictions_.Add({{"policy", policy}}).Increment();
  evicted_pages_.Add({{"policy", policy}}).Increment(static_cast<double>(pages));
}

void EventMetrics::OnFenced(absl::string_view why) {
  fenced_.Add({{"reason", absl::StrReplaceAll(why, {{" ", "_"}})}}).Increment();
}

}  // namespace folio::manager
