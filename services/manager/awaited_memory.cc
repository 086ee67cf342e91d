#include "services/manager/awaited_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace folio::manager {
namespace {

// A rank's pages that a worker brought. Those of a GPU are only a descriptor, which keeps the
// memory.
class BroughtPages final : public PageMemory {
 public:
  BroughtPages(SealedMemory memory, UniqueFd fd, PagePlace place)
      : memory_(std::move(memory)), fd_(std::move(fd)), place_(std::move(place)) {}
  int fd() const override { return fd_.valid() ? fd_.get() : memory_.fd(); }
  const PagePlace& place() const override { return place_; }

 private:
  SealedMemory memory_;
  UniqueFd fd_;
  PagePlace place_;
};

}  // namespace

absl::StatusOr<PoolExport> AwaitedMemory::Expect(const CacheGeometry& geometry,
                                                 absl::Span<const CacheGeometry> ranks,
                                                 PageCount num_pages, uint32_t swap_slots,
                                                 std::vector<PagePlace> places) {
  const size_t board_bytes = geometry.score_board_floats(num_pages.value()) * sizeof(float);
  if (board_bytes == 0 || ranks.empty() || places.size() != ranks.size()) {
    return absl::InternalError("the journal's pool is malformed");
  }
  PoolExport expected;
  expected.awaited_ = true;
  // The coordinator reads the board at this address from the beginning.
  auto board = SealedMemory::Reserve(board_bytes);
  if (!board.ok()) return board.status();
  expected.board_ = *std::move(board);
  expected.places_ = std::move(places);
  expected.pools_.resize(ranks.size());
  for (const CacheGeometry& rank : ranks) {
    expected.pool_bytes_ += size_t{num_pages.value()} * rank.page_bytes();
    if (swap_slots == 0) continue;
    auto swap = SealedMemory::Reserve(swap_slots * rank.swap_slot_bytes());
    if (!swap.ok()) return swap.status();
    expected.swap_bytes_ += swap->bytes();
    expected.swap_.push_back(*std::move(swap));
  }
  return expected;
}

absl::Status AwaitedMemory::Bring(Rank rank, BroughtMemory brought) {
  const size_t index = rank.value();
  if (index >= memory_.pools_.size()) return absl::InternalError("no such rank");
  if (memory_.pools_[index] != nullptr) return absl::OkStatus();
  const PagePlace& place = memory_.places_[index];
  SealedMemory pages, swap, board;
  if (place.device_uuid.empty()) {
    auto adopted = SealedMemory::Adopt("the pool", std::move(brought.pool), place.bytes,
                                       PROT_READ | PROT_WRITE);
    if (!adopted.ok()) return adopted.status();
    pages = *std::move(adopted);
  }
  if (!memory_.swap_.empty()) {
    auto adopted = SealedMemory::Adopt("the swap memory", std::move(brought.swap),
                                       memory_.swap_[index].bytes(), PROT_NONE);
    if (!adopted.ok()) return adopted.status();
    swap = *std::move(adopted);
  }
  if (memory_.board_.fd() < 0) {
    auto adopted = SealedMemory::Adopt("the score board", std::move(brought.score_board),
                                       memory_.board_.bytes(), PROT_READ);
    if (!adopted.ok()) return adopted.status();
    board = *std::move(adopted);
    if (absl::Status moved = board.MoveTo(std::move(memory_.board_)); !moved.ok()) return moved;
    memory_.board_ = std::move(board);
  }
  if (!memory_.swap_.empty()) memory_.swap_[index] = std::move(swap);
  memory_.pools_[index] =
      std::make_unique<BroughtPages>(std::move(pages), std::move(brought.pool), place);
  return absl::OkStatus();
}

absl::Status AwaitedMemory::Replace(PoolExport made) {
  if (absl::Status moved = made.board_.MoveTo(std::move(memory_.board_)); !moved.ok()) return moved;
  // The places and sizes stay as they are, because operators read them meanwhile.
  memory_.board_ = std::move(made.board_);
  memory_.pools_ = std::move(made.pools_);
  memory_.swap_ = std::move(made.swap_);
  return absl::OkStatus();
}

bool AwaitedMemory::complete() const {
  return std::none_of(memory_.pools_.begin(), memory_.pools_.end(),
                      [](const auto& one) { return one == nullptr; });
}

}  // namespace folio::manager
