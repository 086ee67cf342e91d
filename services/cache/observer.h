// CoordinatorObserver is told what happens to sequences and pages, for statistics. The manager
// makes metrics of it. A method that is not overridden does nothing.
#ifndef FOLIO_SERVICES_CACHE_OBSERVER_H_
#define FOLIO_SERVICES_CACHE_OBSERVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace folio::cache {

enum class ParkingEvent : uint8_t {
  kDropped,     // a sequence gave all its pages back, to be computed again later
  kSwappedOut,  // it gave them back, and their contents are in swap memory
  kSwappedIn,   // it has pages again, and its worker copies the contents back
};

// Any thread may call, with the coordinator's lock held. So a method must be quick and must not
// call the coordinator. `policy` is the name of the sequence's policy.
class CoordinatorObserver {
 public:
  virtual ~CoordinatorObserver() = default;

  virtual void OnOpened(const std::string& policy) {}
  // A sequence was not opened.
  virtual void OnRefused(const absl::Status& why) {}
  // So many sequences of a lost worker wait to be claimed.
  virtual void OnOrphaned(uint32_t sequences) {}
  virtual void OnClaimed() {}
  // So many sequences ended because kMaxFruitlessClaims workers in a row were lost with them.
  virtual void OnGivenUp(uint32_t sequences) {}
  // So many orphans ended without a claim.
  virtual void OnOrphansEnded(uint32_t sequences) {}
  // A policy chose what to evict, and took so long on all its threads. Called without the lock.
  virtual void OnDecided(const std::string& policy, absl::Duration took) {}
  // A worker carried out a plan, and so many pages became free.
  virtual void OnEvicted(const std::string& policy, uint64_t pages) {}
  // So many pages of a sequence were swapped, or none if it is computed again.
  virtual void OnParking(ParkingEvent event, uint64_t swapped_pages) {}
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_OBSERVER_H_
