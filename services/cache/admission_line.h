// AdmissionLine keeps the order of those that wait for pages of one pool: the requests at the heads
// of the workers' lines, and parked sequences. Parked ones come first. Otherwise tenants take turns
// (see fair_turns.h), and within a tenant the one comes first that is due first (see urgency.h).
// Among the parked sequences of one worker, that worker chooses. So neither small requests nor a
// busy worker can pass a large request of another worker forever.
//
// The manager cannot call a worker, so a worker asks again and again, between its steps. It does
// not say when the client of a request has left. An ask is forgotten if the worker finished a step
// and did not repeat the ask soon after it, or if the step takes too long.
//
// Not thread-safe.
#ifndef FOLIO_SERVICES_CACHE_ADMISSION_LINE_H_
#define FOLIO_SERVICES_CACHE_ADMISSION_LINE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/base/fair_turns.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"

namespace folio::cache {

class AdmissionLine {
 public:
  // The head of a worker's line, or one of its parked sequences.
  struct Asker {
    WorkerId worker;
    std::optional<SequenceId> parked;
    friend auto operator<=>(const Asker&, const Asker&) = default;
  };

  // The things that decide on an asker's place.
  struct Claims {
    SteadyTime due;
    std::string tenant;
  };

  // There is an asker that waits.
  bool waits(SteadyTime now) const;
  // The tenants of the first requests of workers' lines that wait, once for each.
  std::vector<std::string> WaitingTenants(SteadyTime now) const;
  // How many others come before `asker`.
  size_t Before(const Asker& asker, const Claims& claims, SteadyTime now) const;
  // It found no room, and will ask again. `steps` is true if the worker has sequences that run, so
  // that it may be busy with a step for a while.
  void Wait(const Asker& asker, const Claims& claims, bool steps, SteadyTime now);
  // It found room, or ended.
  void Leave(const Asker& asker) { asks_.erase(asker); }
  void LeaveAll(WorkerId worker);
  // The worker finished a step, which computed so many tokens of a sequence of the tenant.
  void OnCommit(WorkerId worker, absl::string_view tenant, uint64_t tokens, SteadyTime now);

 private:
  // Several times the pause between two asks of a worker.
  static constexpr absl::Duration kForgetAfter = absl::Seconds(1);
  // A worker whose step takes longer holds others back no more.
  static constexpr absl::Duration kLongestStep = absl::Seconds(10);

  struct Ask {
    Claims claims;
    SteadyTime asked;
    std::optional<SteadyTime> could_repeat;  // since then the worker could have asked again
    bool Counts(SteadyTime now) const;
  };
  // How many other tenants wait for a turn.
  size_t Others(absl::string_view tenant, SteadyTime now) const;

  std::map<Asker, Ask> asks_;
  FairTurns turns_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_ADMISSION_LINE_H_
