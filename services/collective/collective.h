// What the ranks of a tensor-parallel group tell each other. All ranks make the same calls in the
// same order, each from one thread at a time; rank 0 leads.
//
// A group fails as a whole. A call that cannot be completed ends the group: it returns why, and so
// do all calls on all ranks, those under way and those still to come. UNAVAILABLE names a rank that
// has gone, DEADLINE_EXCEEDED one that has not come; other codes are the caller's own, of Abort.
// What the buffers of a failed call hold is not defined.
#ifndef FOLIO_SERVICES_COLLECTIVE_COLLECTIVE_H_
#define FOLIO_SERVICES_COLLECTIVE_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/common/ids.h"

namespace folio::collective {

class Collective {
 public:
  virtual ~Collective() = default;

  virtual Rank rank() const = 0;
  virtual uint32_t size() const = 0;  // ranks
  bool leads() const { return rank() == Rank(0); }

  // Every rank's `values` become the sum of all ranks', each added in the order of the ranks:
  // the same bits on all ranks, and again with every run. As many values on all ranks.
  virtual absl::Status AllReduce(absl::Span<float> values, absl::Time deadline) = 0;

  // `all` becomes what the ranks give as `mine`, one after another in their order. sizes[r] is the
  // bytes of rank r, the same numbers on all ranks; `all` has room for their sum.
  virtual absl::Status AllGather(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                                 absl::Span<std::byte> all, absl::Time deadline) = 0;
  // The same for the leader alone; the other ranks leave `all` empty, and may be ahead of it when
  // they return.
  virtual absl::Status Gather(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                              absl::Span<std::byte> all, absl::Time deadline) = 0;

  // `bytes` of the leader become those of all. The leader may be ahead when it returns.
  virtual absl::Status Broadcast(std::string& bytes, absl::Time deadline) = 0;

  // Why the group has ended, or that a rank has gone: one that the leader sees, or the leader. For
  // who waits for something else meanwhile; it does not end the group. Any thread.
  virtual absl::Status Health() const = 0;
  // Ends the group. The first reason stays. Any thread.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_COLLECTIVE_H_
