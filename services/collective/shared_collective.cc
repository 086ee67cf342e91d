#include "services/collective/shared_collective.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::collective {
namespace {

// A rank sleeps this long before it checks that its peers are alive, at first and at most.
constexpr absl::Duration kFirstLook = absl::Milliseconds(5);
constexpr absl::Duration kLastLook = absl::Milliseconds(200);

// Floats of all ranks that are added while they lie in the cache.
constexpr size_t kSumBlock = 2048;

bool Closed(const Peer& peer) {
  pollfd polled = {peer.socket.get(), POLLIN | POLLRDHUP, 0};
  return poll(&polled, 1, 0) > 0;
}

absl::Status Gone(const Peer& peer) {
  return absl::UnavailableError(
      absl::StrCat("rank ", peer.rank.value(), " (process ", peer.pid, ") has gone"));
}

}  // namespace

absl::Status SharedCollective::LookAfterPeers(uint32_t turn) const {
  for (const Peer& peer : peers_) {
    // A rank that has done its part may leave.
    if (Closed(peer) && !segment_.Posted(peer.rank, turn)) return Gone(peer);
  }
  return absl::OkStatus();
}

absl::Status SharedCollective::Await(Rank rank, uint32_t turn, SteadyTime deadline) {
  absl::Duration look = kFirstLook;
  while (!segment_.Posted(rank, turn)) {
    if (absl::Status ended = segment_.ended(); !ended.ok()) return ended;
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) {
      Abort(absl::DeadlineExceededError(absl::StrCat(
          "rank ", rank.value(), " has not come in time, waited for by rank ", rank_.value())));
      return segment_.ended();
    }
    segment_.AwaitPost(rank, turn, std::min(look, left));
    if (segment_.Posted(rank, turn)) break;
    if (absl::Status gone = LookAfterPeers(turn); !gone.ok()) {
      Abort(gone);
      return segment_.ended();
    }
    look = std::min(2 * look, kLastLook);
  }
  return absl::OkStatus();
}

absl::Status SharedCollective::AwaitAll(uint32_t turn, SteadyTime deadline) {
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (Rank(rank) == rank_) continue;
    if (absl::Status status = Await(Rank(rank), turn, deadline); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SharedCollective::Begin(bool gives, SteadyTime deadline) {
  if (absl::Status ended = segment_.ended(); !ended.ok()) return ended;
  const uint32_t before = turn_++;
  return gives ? AwaitAll(before, deadline) : absl::OkStatus();
}

absl::Status SharedCollective::AllReduce(absl::Span<float> values, SteadyTime deadline) {
  const size_t most = segment_.buffer_bytes() / sizeof(float);
  for (size_t first = 0; first < values.size(); first += most) {
    const absl::Span<float> part = values.subspan(first, most);
    if (absl::Status status = Begin(true, deadline); !status.ok()) return status;
    std::memcpy(mine(), part.data(), part.size() * sizeof(float));
    segment_.Post(rank_);
    if (absl::Status status = AwaitAll(turn_, deadline); !status.ok()) return status;
    for (size_t at = 0; at < part.size(); at += kSumBlock) {
      const size_t count = std::min(kSumBlock, part.size() - at);
      float* sum = part.data() + at;
      std::memcpy(sum, of(0) + at * sizeof(float), count * sizeof(float));
      for (uint32_t rank = 1; rank < ranks_; ++rank) {
        const auto* add = reinterpret_cast<const float*>(of(rank)) + at;
        for (size_t i = 0; i < count; ++i) sum[i] += add[i];
      }
    }
  }
  return absl::OkStatus();
}

absl::Status SharedCollective::Collect(absl::Span<const std::byte> own,
                                       absl::Span<const size_t> sizes, absl::Span<std::byte> all,
                                       bool reads, SteadyTime deadline) {
  FOLIO_CHECK(sizes.size() == ranks_ && own.size() == sizes[rank_.value()]);
  const size_t most = segment_.buffer_bytes();
  const size_t longest = *std::max_element(sizes.begin(), sizes.end());
  for (size_t first = 0; first < longest; first += most) {
    const auto part = [&](size_t size) { return size - std::min(size, first); };
    if (absl::Status status = Begin(true, deadline); !status.ok()) return status;
    if (const size_t count = std::min(most, part(own.size())); count > 0) {
      std::memcpy(mine(), own.data() + first, count);
    }
    segment_.Post(rank_);
    if (!reads) continue;
    if (absl::Status status = AwaitAll(turn_, deadline); !status.ok()) return status;
    size_t start = 0;
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      FOLIO_CHECK(start + sizes[rank] <= all.size());
      if (const size_t count = std::min(most, part(sizes[rank])); count > 0) {
        std::memcpy(all.data() + start + first, of(rank), count);
      }
      start += sizes[rank];
    }
  }
  return absl::OkStatus();
}

absl::Status SharedCollective::AllGather(absl::Span<const std::byte> mine,
                                         absl::Span<const size_t> sizes, absl::Span<std::byte> all,
                                         SteadyTime deadline) {
  return Collect(mine, sizes, all, true, deadline);
}

absl::Status SharedCollective::Gather(absl::Span<const std::byte> mine,
                                      absl::Span<const size_t> sizes, absl::Span<std::byte> all,
                                      SteadyTime deadline) {
  return Collect(mine, sizes, all, leads(), deadline);
}

// The first turn begins with the length.
absl::Status SharedCollective::Broadcast(std::string& bytes, SteadyTime deadline) {
  const size_t most = segment_.buffer_bytes();
  uint64_t length = bytes.size();
  size_t done = 0;
  for (bool first = true; first || done < length; first = false) {
    if (absl::Status status = Begin(leads(), deadline); !status.ok()) return status;
    const size_t head = first ? sizeof(length) : 0;
    if (leads()) {
      const size_t count = std::min(most - head, bytes.size() - done);
      if (first) std::memcpy(mine(), &length, sizeof(length));
      std::memcpy(mine() + head, bytes.data() + done, count);
      done += count;
    }
    segment_.Post(rank_);
    if (leads()) continue;
    if (absl::Status status = Await(Rank(0), turn_, deadline); !status.ok()) return status;
    if (first) {
      std::memcpy(&length, of(0), sizeof(length));
      bytes.resize(length);
    }
    const size_t count = std::min<size_t>(most - head, length - done);
    std::memcpy(bytes.data() + done, of(0) + head, count);
    done += count;
  }
  return absl::OkStatus();
}

absl::Status SharedCollective::Health() const {
  absl::Status status = segment_.ended();
  for (const Peer& peer : peers_) {
    if (status.ok() && Closed(peer)) status = Gone(peer);
  }
  return status;
}

void SharedCollective::Abort(const absl::Status& why) {
  FOLIO_CHECK(!why.ok());
  segment_.End(why);
}

}  // namespace folio::collective
