#include "services/collective/shared_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "services/base/check.h"
#include "services/base/spin_pause.h"
#include "services/base/steady_time.h"

namespace folio::collective {
namespace {

constexpr uint64_t kMagic = 0x316b6e61526f6c6f;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
// A word is twice the turn, and odd once the group has ended. The end changes every word, so that a
// rank cannot sleep through it.
constexpr uint32_t kEnded = 1;
constexpr uint32_t kTurn = 2;

// A rank spins this long for another one before it sleeps. There may be more ranks than cores, so
// after the first moments it yields to threads that have work.
constexpr int kSpins = 64;
constexpr absl::Duration kAwake = absl::Microseconds(50);

// The futexes of this file are between processes.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, absl::Duration longest) {
  const timespec timeout = absl::ToTimespec(longest);
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct alignas(64) SharedSegment::RankWord {
  std::atomic<uint32_t> turn{0};  // see kTurn; also the futex
  std::atomic<uint32_t> sleepers{0};
};

struct SharedSegment::Layout {
  uint64_t magic;
  uint32_t ranks;
  uint64_t buffer_bytes;

  enum EndState : uint32_t { kGoesOn, kBeingTold, kTold };
  std::atomic<uint32_t> end_state{kGoesOn};
  int32_t end_code = 0;
  uint32_t end_length = 0;
  char end_message[500];

  RankWord words[kMaxRanks];

  static size_t Bytes(uint32_t ranks, size_t buffer_bytes) {
    return sizeof(Layout) + size_t{2} * ranks * buffer_bytes;
  }
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

absl::StatusOr<UniqueFd> SharedSegment::Create(uint32_t ranks, size_t buffer_bytes) {
  FOLIO_CHECK(ranks >= 1 && ranks <= kMaxRanks && buffer_bytes % 64 == 0 && buffer_bytes > 0);
  const size_t bytes = Layout::Bytes(ranks, buffer_bytes);
  UniqueFd fd(memfd_create("folio-ranks", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::ErrnoToStatus(errno, "cannot size the ranks' shared memory");
  }
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map the ranks' memory");
  auto* layout = new (memory) Layout;
  layout->magic = kMagic;
  layout->ranks = ranks;
  layout->buffer_bytes = buffer_bytes;
  munmap(memory, bytes);
  return fd;
}

absl::StatusOr<SharedSegment> SharedSegment::Map(int fd, uint32_t ranks) {
  struct stat info = {};
  if (fstat(fd, &info) != 0) return absl::ErrnoToStatus(errno, "the ranks' memory");
  const auto bytes = static_cast<size_t>(info.st_size);
  absl::Status other = absl::FailedPreconditionError("the memory does not belong to such a group");
  if ((fcntl(fd, F_GET_SEALS) & kSeals) != kSeals || bytes < sizeof(Layout)) return other;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot map the ranks' memory");
  SharedSegment segment(memory, bytes);
  const Layout& layout = *segment.layout_;
  if (layout.magic != kMagic || layout.ranks != ranks ||
      bytes != Layout::Bytes(ranks, layout.buffer_bytes)) {
    return other;
  }
  return segment;
}

SharedSegment::SharedSegment(void* memory, size_t bytes)
    : layout_(static_cast<Layout*>(memory), [bytes](Layout* layout) { munmap(layout, bytes); }) {}

size_t SharedSegment::buffer_bytes() const { return layout_->buffer_bytes; }

absl::Span<std::byte> SharedSegment::buffer(Rank rank, uint32_t turn) const {
  const size_t index = size_t{2} * rank.value() + turn % 2;
  auto* first = reinterpret_cast<std::byte*>(layout_.get() + 1);
  return {first + index * layout_->buffer_bytes, layout_->buffer_bytes};
}

void SharedSegment::Post(Rank rank) {
  RankWord& word = layout_->words[rank.value()];
  word.turn.fetch_add(kTurn);
  if (word.sleepers.load() != 0) FutexWakeAll(word.turn);
}

bool SharedSegment::Posted(Rank rank, uint32_t turn) const {
  const uint32_t word = layout_->words[rank.value()].turn.load(std::memory_order_acquire);
  // Turns wrap around, and a rank is never half of the range ahead.
  return static_cast<int32_t>((word & ~kEnded) - turn * kTurn) >= 0;
}

bool SharedSegment::Reached(Rank rank, uint32_t turn) const {
  const uint32_t word = layout_->words[rank.value()].turn.load(std::memory_order_acquire);
  return (word & kEnded) != 0 || Posted(rank, turn);
}

void SharedSegment::AwaitPost(Rank rank, uint32_t turn, absl::Duration longest) {
  for (int i = 0; i < kSpins; ++i) {
    if (Reached(rank, turn)) return;
    SpinPause();
  }
  const SteadyTime awake = SteadyNow() + std::min(kAwake, longest);
  do {
    sched_yield();
    if (Reached(rank, turn)) return;
  } while (SteadyNow() < awake);
  RankWord& word = layout_->words[rank.value()];
  word.sleepers.fetch_add(1);
  const uint32_t seen = word.turn.load();
  if (!Reached(rank, turn)) FutexWait(word.turn, seen, longest);
  word.sleepers.fetch_sub(1);
}

void SharedSegment::End(const absl::Status& why) {
  Layout& layout = *layout_;
  uint32_t state = Layout::kGoesOn;
  if (layout.end_state.compare_exchange_strong(state, Layout::kBeingTold)) {
    const absl::string_view message = why.message().substr(0, sizeof(layout.end_message));
    std::memcpy(layout.end_message, message.data(), message.size());
    layout.end_length = static_cast<uint32_t>(message.size());
    layout.end_code = static_cast<int32_t>(why.code());
    layout.end_state.store(Layout::kTold);
  }
  for (uint32_t rank = 0; rank < layout.ranks; ++rank) {
    layout.words[rank].turn.fetch_or(kEnded);
    FutexWakeAll(layout.words[rank].turn);
  }
}

absl::Status SharedSegment::ended() const {
  const Layout& layout = *layout_;
  uint32_t state = layout.end_state.load(std::memory_order_acquire);
  if (state == Layout::kGoesOn) return absl::OkStatus();
  // The rank that writes the reason needs a moment more, or has died while it wrote.
  for (int i = 0; i < 1000 && state == Layout::kBeingTold; ++i) {
    sched_yield();
    state = layout.end_state.load(std::memory_order_acquire);
  }
  if (state == Layout::kBeingTold) return absl::UnavailableError("a rank has ended the group");
  const uint32_t length = std::min<uint32_t>(layout.end_length, sizeof(layout.end_message));
  return absl::Status(static_cast<absl::StatusCode>(layout.end_code),
                      absl::string_view(layout.end_message, length));
}

}  // namespace folio::collective
