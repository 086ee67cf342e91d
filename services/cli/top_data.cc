#include "services/cli/top_data.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace folio::cli {
namespace {

// Rates are over so many snapshots, so that they are neither nervous nor late.
constexpr size_t kSnapshots = 4;

double PerSecond(uint64_t count, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

std::map<uint64_t, const folio::v1::Sequence*> ById(const Snapshot& snapshot) {
  std::map<uint64_t, const folio::v1::Sequence*> result;
  for (const auto& one : snapshot.sequences.sequences()) result[one.sequence_id()] = &one;
  return result;
}

}  // namespace

absl::Status TopData::CountEvents(client::AdminClient& client, const client::CallOptions& call,
                                  bool first, Snapshot* snapshot) {
  folio::v1::WatchEventsRequest request;
  request.set_after(snapshot->newest_event);
  request.add_kinds(folio::v1::EVENT_KIND_PAGES_EVICTED);
  request.add_kinds(folio::v1::EVENT_KIND_SEQUENCE_PARKED);
  client::EventStream events = client.WatchEvents(request, call);
  while (const auto response = events.Next()) {
    if (!response->has_event()) continue;
    const auto& event = response->event();
    snapshot->newest_event = std::max(snapshot->newest_event, event.number());
    if (first) continue;  // they are of the time before
    if (event.kind() == folio::v1::EVENT_KIND_SEQUENCE_PARKED) {
      ++snapshot->parked;
    } else {
      snapshot->evicted_pages += event.pages();
    }
  }
  return events.status();
}

absl::Status TopData::Refresh(client::AdminClient& client, const client::CallOptions& call) {
  Snapshot next;
  const auto manager = client.GetManager(call);
  if (!manager.ok()) return manager.status();
  const auto pools = client.ListPools(call);
  if (!pools.ok()) return pools.status();
  const auto sequences = client.ListSequences(call);
  if (!sequences.ok()) return sequences.status();
  const auto tenants = client.ListTenants(call);
  if (!tenants.ok()) return tenants.status();
  auto pages = client.ListPages({}, call);
  // Another one may be looking at the pages now. Then the map is that of before.
  if (!pages.ok() && !absl::IsResourceExhausted(pages.status())) return pages.status();
  // A manager that was started again counts its events from 1.
  const bool same = !empty() && now().manager.boot_id() == manager->boot_id() &&
                    now().manager.pid() == manager->pid() &&
                    now().manager.uptime_ms() <= manager->uptime_ms();
  next.newest_event = same ? now().newest_event : 0;
  if (absl::Status status = CountEvents(client, call, !same, &next); !status.ok()) return status;
  next.when = SteadyNow();
  next.date = absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone());
  next.manager = *manager;
  next.pools = *pools;
  next.sequences = *sequences;
  next.tenants = *tenants;
  if (pages.ok()) {
    next.pages = *std::move(pages);
  } else if (!empty()) {
    next.pages = now().pages;
  }
  Add(std::move(next));
  return absl::OkStatus();
}

void TopData::Add(Snapshot snapshot) {
  if (!snapshots_.empty()) snapshots_.back().pages.clear();
  snapshots_.push_back(std::move(snapshot));
  if (snapshots_.size() > kSnapshots) snapshots_.pop_front();
  rates_ = ComputeRates();
}

Rates TopData::ComputeRates() const {
  Rates rates;
  const Snapshot& first = snapshots_.front();
  const Snapshot& last = snapshots_.back();
  const absl::Duration time = last.when - first.when;
  const auto before = ById(first);
  uint64_t prompt = 0, decoded = 0, evicted = 0, parked = 0;
  for (const auto& sequence : last.sequences.sequences()) {
    const auto it = before.find(sequence.sequence_id());
    if (it == before.end()) continue;
    const uint32_t was = it->second->logical_length();
    const uint32_t is = std::max(was, sequence.logical_length());
    const uint32_t of_prompt =
        std::min(is, sequence.prompt_tokens()) - std::min(was, sequence.prompt_tokens());
    prompt += of_prompt;
    decoded += is - was - of_prompt;
    rates.by_sequence[sequence.sequence_id()] = PerSecond(is - was, time);
  }
  for (size_t i = 1; i < snapshots_.size(); ++i) {
    evicted += snapshots_[i].evicted_pages;
    parked += snapshots_[i].parked;
  }
  rates.prompt_tokens = PerSecond(prompt, time);
  rates.decoded_tokens = PerSecond(decoded, time);
  rates.evicted_pages = PerSecond(evicted, time);
  rates.parked = PerSecond(parked, time);
  return rates;
}

}  // namespace folio::cli
