// SharedSegment is memory that all ranks of a group have mapped. For each rank it has a word with
// the rank's turn and two buffers for the data that the rank sends. It also has one place for the
// reason why the group has ended.
//
// Time is counted in turns. A rank posts turn t when its data of t is in its buffer t mod 2 and it
// has read all it needs of the turns before. A buffer may therefore be written for turn t once all
// ranks have posted t - 1.
#ifndef FOLIO_SERVICES_COLLECTIVE_SHARED_SEGMENT_H_
#define FOLIO_SERVICES_COLLECTIVE_SHARED_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/base/ids.h"
#include "services/base/unique_fd.h"

namespace folio::collective {

inline constexpr uint32_t kMaxRanks = 64;

// One process's mapping, which copies share. Any number of threads may use it, but only one posts a
// rank's turns.
class SharedSegment {
 public:
  // New memory, sealed against resizing. `buffer_bytes` is a multiple of 64.
  static absl::StatusOr<UniqueFd> Create(uint32_t ranks, size_t buffer_bytes);
  // FAILED_PRECONDITION if the descriptor is not such memory, or has another number of ranks.
  static absl::StatusOr<SharedSegment> Map(int fd, uint32_t ranks);

  size_t buffer_bytes() const;
  // The buffer of the data that the rank sends in the turn.
  absl::Span<std::byte> buffer(Rank rank, uint32_t turn) const;

  // Posts the rank's next turn and wakes the ranks that wait for it.
  void Post(Rank rank);
  bool Posted(Rank rank, uint32_t turn) const;
  // Waits for Posted or the end of the group, at most `longest`. It spins for some microseconds,
  // then yields to other threads, then sleeps.
  void AwaitPost(Rank rank, uint32_t turn, absl::Duration longest);

  // Ends the group and wakes all waiting ranks. The first reason given is kept.
  void End(const absl::Status& why);
  // OK, or the reason why the group has ended.
  absl::Status ended() const;

 private:
  struct Layout;
  struct RankWord;
  SharedSegment(void* memory, size_t bytes);
  bool Reached(Rank rank, uint32_t turn) const;

  std::shared_ptr<Layout> layout_;
};

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_SHARED_SEGMENT_H_
