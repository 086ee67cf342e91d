// Collective is the exchange between the ranks of a tensor-parallel group: sums, gathered pieces
// and broadcasts. All ranks make the same calls in the same order, each from one thread at a time.
// Rank 0 leads.
//
// A group fails as a whole, because a rank that continued alone would compute with half a model. A
// call that cannot be completed ends the group, and then every call on every rank returns the same
// reason. UNAVAILABLE names a rank whose process has ended, DEADLINE_EXCEEDED names one that was
// too late, and other codes are those given to Abort. The buffers of a failed call are undefined.
#ifndef FOLIO_SERVICES_COLLECTIVE_COLLECTIVE_H_
#define FOLIO_SERVICES_COLLECTIVE_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/steady_time.h"

namespace folio::collective {

class Collective {
 public:
  virtual ~Collective() = default;

  virtual Rank rank() const = 0;
  virtual uint32_t size() const = 0;  // ranks
  bool leads() const { return rank() == Rank(0); }

  // Every rank's `values` become the sum over all ranks, added in the order of the ranks. The
  // result has the same bits on all ranks and in every run. All ranks give the same number of
  // values.
  virtual absl::Status AllReduce(absl::Span<float> values, SteadyTime deadline) = 0;

  // `all` becomes every rank's `mine`, in the order of the ranks. sizes[r] is the number of bytes
  // of rank r, with the same numbers on all ranks, and `all` has room for their sum.
  virtual absl::Status AllGather(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                                 absl::Span<std::byte> all, SteadyTime deadline) = 0;
  // The same for the leader alone. The other ranks leave `all` empty and do not wait for the
  // leader.
  virtual absl::Status Gather(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                              absl::Span<std::byte> all, SteadyTime deadline) = 0;

  // The leader's `bytes` become those of all ranks. The leader does not wait for the others.
  virtual absl::Status Broadcast(std::string& bytes, SteadyTime deadline) = 0;

  // OK, or why the group has ended, or that a rank's process has ended (the leader sees all others,
  // the others see the leader). It does not end the group. A thread that waits for something else
  // calls it now and then. Any thread.
  virtual absl::Status Health() const = 0;
  // Ends the group. The first reason is kept. Any thread.
  virtual void Abort(const absl::Status& why) = 0;
};

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_COLLECTIVE_H_
