#include "services/manager/event_metrics.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_replace.h"
#include "services/metrics/families.h"
#include "services/policy/registry.h"

namespace folio::manager {

using metrics::Counters;

namespace {

// Seconds. A decision takes tens of microseconds for a block and milliseconds for a long prompt.
const prometheus::Histogram::BucketBoundaries kDecisionBuckets = {
    1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.5, 1};

// Reasons for which a worker is fenced, as labels.
constexpr const char* kFenceReasons[] = {"session_ended", "lease_ran_out", "process_ended",
                                         "attached_again"};

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
      given_up_(Counters(*registry_, "folio:sequences_given_up_total",
                         "Sequences that ended because two workers in a row claimed them and were "
                         "lost before they made progress.")
                    .Add({})),
      orphans_ended_(Counters(*registry_, "folio:orphans_ended_total",
                              "Orphans that ended because no worker took them over in time, or "
                              "because others needed their pages.")
                         .Add({})),
      killed_(Counters(*registry_, "folio:killed_processes_total",
                       "Processes of fenced workers that the manager ended because they still "
                       "blocked pages after --kill_fenced_after.")
                  .Add({})),
      parked_(Counters(*registry_, "folio:sequences_parked_total",
                       "Times that a sequence gave all its pages back, to continue later.")
                  .Add({})),
      swapped_out_(Counters(*registry_, "folio:sequences_swapped_out_total",
                            "Times that a sequence that gave its pages back kept their contents "
                            "in swap memory. All others are computed again.")
                       .Add({})),
      swapped_in_(Counters(*registry_, "folio:sequences_swapped_in_total",
                           "Times that a sequence got pages for its contents in swap memory.")
                      .Add({})),
      swapped_pages_(Counters(*registry_, "folio:swapped_pages_total",
                              "Pages copied to swap memory or back, by direction.")) {
  for (const policy::PolicyTraits& policy : AllPolicies()) SeriesOf(policy.name, policy.evicts);
  refused_.Add({{"code", absl::StatusCodeToString(absl::StatusCode::kResourceExhausted)}});
  for (const char* direction : {"out", "in"}) swapped_pages_.Add({{"direction", direction}});
  for (const char* reason : kFenceReasons) fenced_.Add({{"reason", reason}});
}

EventMetrics::PolicySeries EventMetrics::SeriesOf(const std::string& policy, bool evicts) {
  absl::MutexLock lock(&mu_);
  const auto [it, made] = policies_.try_emplace(policy);
  PolicySeries& series = it->second;
  if (!made) return series;
  const prometheus::Labels label = {{"policy", policy}};
  series.opened = &opened_.Add(label);
  if (!evicts) return series;
  series.evictions = &evictions_.Add(label);
  series.evicted_pages = &evicted_pages_.Add(label);
  series.decisions = &decisions_.Add(label, kDecisionBuckets);
  return series;
}

void EventMetrics::OnOpened(const std::string& policy) { SeriesOf(policy).opened->Increment(); }

void EventMetrics::OnRefused(const absl::Status& why) {
  refused_.Add({{"code", absl::StatusCodeToString(why.code())}}).Increment();
}

void EventMetrics::OnOrphaned(uint32_t sequences) { orphaned_.Increment(sequences); }

void EventMetrics::OnClaimed() { claimed_.Increment(); }

void EventMetrics::OnGivenUp(uint32_t sequences) { given_up_.Increment(sequences); }

void EventMetrics::OnOrphansEnded(uint32_t sequences) { orphans_ended_.Increment(sequences); }

void EventMetrics::OnDecided(const std::string& policy, absl::Duration took) {
  SeriesOf(policy).decisions->Observe(absl::ToDoubleSeconds(took));
}

void EventMetrics::OnEvicted(const std::string& policy, uint64_t pages) {
  const PolicySeries series = SeriesOf(policy);
  series.evictions->Increment();
  series.evicted_pages->Increment(static_cast<double>(pages));
}

void EventMetrics::OnParking(cache::ParkingEvent event, uint64_t swapped_pages) {
  if (event != cache::ParkingEvent::kSwappedIn) parked_.Increment();
  if (event == cache::ParkingEvent::kDropped) return;
  const bool out = event == cache::ParkingEvent::kSwappedOut;
  (out ? swapped_out_ : swapped_in_).Increment();
  swapped_pages_.Add({{"direction", out ? "out" : "in"}})
      .Increment(static_cast<double>(swapped_pages));
}

void EventMetrics::OnFenced(absl::string_view why) {
  fenced_.Add({{"reason", absl::StrReplaceAll(why, {{" ", "_"}})}}).Increment();
}

}  // namespace folio::manager
