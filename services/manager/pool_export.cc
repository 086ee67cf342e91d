#include "services/manager/pool_export.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace folio::manager {
namespace {

constexpr uint64_t kBlockBytes = 512;  // as fstat counts

}  // namespace

absl::StatusOr<PoolExport> PoolExport::Create(const PageSource& source,
                                              const CacheGeometry& geometry,
                                              absl::Span<const CacheGeometry> ranks,
                                              PageCount num_pages, uint32_t swap_slots) {
  const size_t board_bytes = geometry.score_board_floats(num_pages.value()) * sizeof(float);
  if (board_bytes == 0 || ranks.empty() || geometry.page_bytes() == 0) {
    return absl::InvalidArgumentError("a pool needs at least one page");
  }
  PoolExport made;
  for (const CacheGeometry& rank : ranks) {
    const size_t bytes = size_t{num_pages.value()} * rank.page_bytes();
    auto memory = source.Allocate(Rank(static_cast<uint32_t>(made.ranks())), bytes);
    if (!memory.ok()) return memory.status();
    made.places_.push_back((*memory)->place());
    made.pools_.push_back(*std::move(memory));
    made.pool_bytes_ += bytes;
  }
  auto board = SealedMemory::Make("folio-scores", board_bytes, PROT_READ, 0);
  if (!board.ok()) return board.status();
  if (source.prefaults()) {
    absl::Status status = board->TakeAll([](size_t) {});
    if (!status.ok()) return status;
  }
  made.board_ = *std::move(board);
  for (const CacheGeometry& rank : ranks) {
    if (swap_slots == 0) break;
    auto swap = SealedMemory::Make("folio-swap", swap_slots * rank.swap_slot_bytes(), PROT_NONE, 0);
    if (!swap.ok()) return swap.status();
    if (source.prefaults()) {
      absl::Status status = swap->TakeAll([](size_t) {});
      if (!status.ok()) return status;
    }
    made.swap_bytes_ += swap->bytes();
    made.swap_.push_back(*std::move(swap));
  }
  return made;
}

std::map<std::string, uint64_t> TakenBy(const PoolExport& memory) {
  std::map<std::string, uint64_t> taken;
  for (size_t rank = 0; rank < memory.places_.size(); ++rank) {
    const PagePlace& place = memory.places_[rank];
    struct stat file = {};
    if (!place.device_uuid.empty()) {
      taken[place.device] += place.bytes;
    } else if (!memory.awaited_ && fstat(memory.pools_[rank]->fd(), &file) == 0) {
      taken[place.device] += static_cast<uint64_t>(file.st_blocks) * kBlockBytes;
    }
  }
  return taken;
}

HugePages PoolExport::huge_pages() const {
  HugePages least = HugePages::kReserved;
  for (const PagePlace& place : places_) least = std::min(least, place.huge_pages);
  return least;
}

}  // namespace folio::manager
