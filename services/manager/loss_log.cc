#include "services/manager/loss_log.h"

#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

constexpr const char* kWhyGivenUp = "workers in a row were lost with it";

}  // namespace

void LogLeft(const cache::Coordinator& coordinator, const cache::PoolInfo& before,
             absl::Duration orphan_ttl, const PoolEvents& event_log) {
  const cache::Inspector inspector(coordinator);
  const cache::PoolInfo now = inspector.pool();
  if (now.orphans() > before.orphans()) {
    log::Warning("sequences orphaned", {{"sequences", now.orphans() - before.orphans()},
                                        {"orphans", now.orphans()},
                                        {"orphan_ttl", orphan_ttl}});
  }
  for (const SequenceId id : inspector.NewestGivenUp(now.given_up - before.given_up)) {
    log::Warning("sequence given up",
                 {{"sequence", id}, {"why", kWhyGivenUp}, {"workers", cache::kMaxFruitlessClaims}});
    event_log.Append({.kind = EventKind::kSequenceGivenUp, .sequence = id, .text = kWhyGivenUp});
  }
  // A worker that closed its sequences leaves no pages behind.
  if (now.quarantined <= before.quarantined) return;
  log::Warning("pages quarantined until the process ends",
               {{"pages", now.quarantined.value() - before.quarantined.value()},
                {"quarantined", now.quarantined}});
}

}  // namespace folio::manager
