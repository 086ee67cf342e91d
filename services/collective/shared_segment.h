// Memory that all ranks of a group have mapped: per rank a word that says how far it has come, two
// buffers for what it gives, and one place for the reason why the group has ended.
//
// Time is counted in turns. A rank posts turn t when what it gives in t lies in its buffer t mod 2
// and it has read all it wanted of the turns before: so a buffer may be written for turn t once
// all ranks have posted t - 1.
#ifndef FOLIO_SERVICES_COLLECTIVE_SHARED_SEGMENT_H_
#define FOLIO_SERVICES_COLLECTIVE_SHARED_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/common/ids.h"
#include "services/common/unique_fd.h"

namespace folio::collective {

inline constexpr uint32_t kMostRanks = 64;

// One process's mapping. Any number of threads; a rank's own turns are posted by one.
class SharedSegment {
 public:
  // New memory, sealed against resizing. `buffer_bytes` is a multiple of 64.
  static absl::StatusOr<UniqueFd> Create(uint32_t ranks, size_t buffer_bytes);
  // FAILED_PRECONDITION when the descriptor is not such memory, or of another number of ranks.
  static absl::StatusOr<SharedSegment> Map(int fd, uint32_t ranks);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  ~SharedSegment();

  size_t buffer_bytes() const;
  // What the rank gives in the turn.
  absl::Span<std::byte> buffer(Rank rank, uint32_t turn) const;

  // The rank has come to its next turn; who waits for it wakes up.
  void Post(Rank rank);
  bool Posted(Rank rank, uint32_t turn) const;
  // Waits for Posted or the end of the group, at most `longest`: first awake for some microseconds,
  // giving way to other threads, then asleep.
  void AwaitPost(Rank rank, uint32_t turn, absl::Duration longest);

  // Ends the group for the first reason given; all who wait wake up.
  void End(const absl::Status& why);
  // Why it has ended, or OK.
  absl::Status ended() const;

 private:
  struct Layout;
  struct RankWord;
  explicit SharedSegment(void* memory, size_t bytes);
  bool Reached(Rank rank, uint32_t turn) const;

  Layout* layout_;
  size_t bytes_;
};

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_SHARED_SEGMENT_H_
