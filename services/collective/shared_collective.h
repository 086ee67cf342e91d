// SharedCollective is the collective over shared memory, for ranks that are processes (or threads)
// of one machine. Data that is longer than a buffer goes in several turns. A rank that waits checks
// its peers now and then. The leader checks all and the others check the leader, which ends the
// group for everyone.
#ifndef FOLIO_SERVICES_COLLECTIVE_SHARED_COLLECTIVE_H_
#define FOLIO_SERVICES_COLLECTIVE_SHARED_COLLECTIVE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "services/base/steady_time.h"
#include "services/base/unique_fd.h"
#include "services/collective/collective.h"
#include "services/collective/shared_segment.h"

namespace folio::collective {

// A Unix socket to another rank. Nothing is sent over it, but it closes when that rank's process
// ends, however it ends.
struct Peer {
  Rank rank;
  pid_t pid = 0;
  UniqueFd socket;
};

class SharedCollective final : public Collective {
 public:
  SharedCollective(Rank rank, uint32_t ranks, SharedSegment segment, std::vector<Peer> peers)
      : rank_(rank), ranks_(ranks), segment_(std::move(segment)), peers_(std::move(peers)) {}

  Rank rank() const override { return rank_; }
  uint32_t size() const override { return ranks_; }
  absl::Status AllReduce(absl::Span<float> values, SteadyTime deadline) override;
  absl::Status AllGather(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                         absl::Span<std::byte> all, SteadyTime deadline) override;
  absl::Status Gather(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                      absl::Span<std::byte> all, SteadyTime deadline) override;
  absl::Status Broadcast(std::string& bytes, SteadyTime deadline) override;
  absl::Status Health() const override;
  void Abort(const absl::Status& why) override;

 private:
  // Begins a turn. If this rank sends something in it, waits until the buffer is free.
  absl::Status Begin(bool gives, SteadyTime deadline);
  // This rank's buffer of the turn.
  std::byte* mine() const { return segment_.buffer(rank_, turn_).data(); }
  const std::byte* of(uint32_t rank) const { return segment_.buffer(Rank(rank), turn_).data(); }
  absl::Status Await(Rank rank, uint32_t turn, SteadyTime deadline);
  absl::Status AwaitAll(uint32_t turn, SteadyTime deadline);
  absl::Status LookAfterPeers(uint32_t turn) const;
  absl::Status Collect(absl::Span<const std::byte> mine, absl::Span<const size_t> sizes,
                       absl::Span<std::byte> all, bool reads, SteadyTime deadline);

  const Rank rank_;
  const uint32_t ranks_;
  SharedSegment segment_;
  const std::vector<Peer> peers_;
  uint32_t turn_ = 0;
};

}  // namespace folio::collective

#endif  // FOLIO_SERVICES_COLLECTIVE_SHARED_COLLECTIVE_H_
