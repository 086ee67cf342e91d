#include "services/manager/pool_metrics.h"

#include <algorithm>
#include <string>
#include <utility>

#include "services/cache/inspector.h"
#include "services/manager/pool.h"
#include "services/manager/worker_name.h"
#include "services/metrics/families.h"

namespace folio::manager {

using metrics::GaugeFamily;
using metrics::With;

namespace {

prometheus::MetricFamily AttachedWorkers(size_t workers, const prometheus::Labels& labels) {
  return GaugeFamily("folio:attached_workers", "Workers with a lease.",
                     {{static_cast<double>(workers), labels}});
}

std::vector<prometheus::MetricFamily> FamiliesOf(const ServedPool& served,
                                                 const prometheus::Labels& name) {
  std::vector<prometheus::MetricFamily> families;
  const std::shared_ptr<const Pool> pool = served.registry().pool();
  if (pool == nullptr) return {AttachedWorkers(0, name)};
  const cache::PoolInfo info = cache::Inspector(pool->coordinator()).pool();
  const prometheus::Labels model = With(name, "model_name", pool->layout().model());
  const auto pages = [&](const char* state, PageCount count) {
    return metrics::Sample{static_cast<double>(count.value()), With(model, "state", state)};
  };
  const auto sequences = [&](const char* label, cache::SequenceState state) {
    return metrics::Sample{static_cast<double>(info.in_state(state)), With(model, "state", label)};
  };
  const auto gauge = [&](const char* name, const char* help, double value) {
    families.push_back(GaugeFamily(name, help, {{value, model}}));
  };
  families.push_back(GaugeFamily("folio:pool_pages",
                                 "Pages of the pool, by state. Together they are the pool.",
                                 {pages("free", info.free), pages("held", info.held),
                                  pages("quarantined", info.quarantined)}));
  gauge("folio:pool_reserved_pages",
        "Free pages that are promised to running sequences, for their prompts or, with "
        "--admission=reserve, for the rest of their lives.",
        info.reserved.value());
  gauge("folio:pool_bytes", "Memory of the pool, in bytes, of all ranks together.",
        static_cast<double>(pool->memory().pool_bytes()));
  gauge("folio:page_bytes", "Memory of one page, in bytes, of all ranks together.",
        static_cast<double>(pool->page_bytes()));
  gauge("folio:kv_cache_usage_perc", "Share of the pool's pages that are not free, from 0 to 1.",
        1.0 - static_cast<double>(info.free.value()) / info.total.value());
  families.push_back(metrics::CounterFamily(
      "folio:window_pages_freed_total",
      "Pages that became free because the windows of their layers had passed them.",
      {{static_cast<double>(info.window_pages), model}}));
  const auto slots = [&](const char* state, uint32_t count) {
    return metrics::Sample{static_cast<double>(count), With(model, "state", state)};
  };
  const uint32_t unused = info.free_swap_slots + info.quarantined_swap_slots;
  families.push_back(
      GaugeFamily("folio:swap_slots",
                  "Slots of the swap memory, by state. Together they are all, and "
                  "each has room for a page.",
                  {slots("free", info.free_swap_slots), slots("held", info.swap_slots - unused),
                   slots("quarantined", info.quarantined_swap_slots)}));
  gauge("folio:swap_bytes", "Swap memory of the host, in bytes, of all ranks together.",
        static_cast<double>(pool->memory().swap_bytes()));
  families.push_back(GaugeFamily("folio:sequences", "Open sequences, by state.",
                                 {sequences("prefill", cache::SequenceState::kPrefill),
                                  sequences("decode", cache::SequenceState::kDecode),
                                  sequences("evicting", cache::SequenceState::kEvicting),
                                  sequences("orphaned", cache::SequenceState::kOrphaned),
                                  sequences("parked", cache::SequenceState::kParked)}));
  families.push_back(AttachedWorkers(info.workers.size(), name));
  std::vector<metrics::Sample> leases;
  for (const cache::WorkerInfo& worker : info.workers) {
    leases.push_back({absl::ToDoubleSeconds(worker.lease_remaining),
                      With(With(model, "worker", WorkerName(worker.id)), "name", worker.name)});
  }
  families.push_back(GaugeFamily(
      "folio:worker_lease_seconds",
      "Time left of a worker's lease, which each of its messages renews for --lease_ttl.", leases));
  return families;
}

// A family is told once, with the samples of all pools.
void Merge(std::vector<prometheus::MetricFamily> more,
           std::vector<prometheus::MetricFamily>* families) {
  for (prometheus::MetricFamily& family : more) {
    const auto same = std::find_if(families->begin(), families->end(),
                                   [&](const auto& one) { return one.name == family.name; });
    if (same == families->end()) {
      families->push_back(std::move(family));
      continue;
    }
    same->metric.insert(same->metric.end(), family.metric.begin(), family.metric.end());
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> PoolMetrics::Collect() const {
  const bool drains = !pools_->all().front()->registry().drains().MayOpen().ok();
  std::vector<prometheus::MetricFamily> families;
  families.push_back(GaugeFamily("folio:draining",
                                 "1 while the manager drains and opens no more sequences, else 0.",
                                 {{drains ? 1.0 : 0.0, {}}}));
  for (const auto& served : pools_->all()) {
    prometheus::Labels name;
    if (names_) name["pool"] = served->name();
    Merge(FamiliesOf(*served, name), &families);
  }
  return families;
}

}  // namespace folio::manager
