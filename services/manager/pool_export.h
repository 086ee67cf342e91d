// PoolExport is the memory of a pool: page memory for each tensor-parallel rank and one score board
// for all of them. The board is a sealed memfd of the host even if the pages are on GPUs, because
// the manager reads it for every decision and never touches a GPU's memory. If sequences may be
// swapped, each rank also has swap memory, a sealed memfd of the host that workers alone touch.
#ifndef FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
#define FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/base/geometry.h"
#include "services/base/ids.h"
#include "services/manager/memory/page_memory.h"
#include "services/manager/memory/sealed_memory.h"

namespace folio::manager {

// Owns the memory. Any thread may read it once it is complete. The board starts as zeros.
class PoolExport {
 public:
  // Allocates num_pages * page_bytes from `source` for each of `ranks`, and a board of the whole
  // geometry's score_board_floats(num_pages). Each rank gets swap_slots * swap_slot_bytes of swap
  // memory. The errors are those of PageSource::Allocate.
  static absl::StatusOr<PoolExport> Create(const PageSource& source, const CacheGeometry& geometry,
                                           absl::Span<const CacheGeometry> ranks,
                                           PageCount num_pages, uint32_t swap_slots = 0);
  // The same for a pool of one rank.
  static absl::StatusOr<PoolExport> Create(const PageSource& source, const CacheGeometry& geometry,
                                           PageCount num_pages) {
    return Create(source, geometry, {&geometry, 1}, num_pages);
  }

  PoolExport(PoolExport&& other) = default;
  PoolExport& operator=(PoolExport&& other) = default;

  size_t ranks() const { return pools_.size(); }
  int pool_fd(Rank rank = Rank(0)) const { return pools_[rank.value()]->fd(); }
  const PagePlace& place(Rank rank = Rank(0)) const { return places_[rank.value()]; }
  int score_board_fd() const { return board_.fd(); }
  // -1 without swap memory.
  int swap_fd(Rank rank) const { return swap_.empty() ? -1 : swap_[rank.value()].fd(); }
  size_t swap_bytes() const { return swap_bytes_; }  // of all ranks
  size_t pool_bytes() const { return pool_bytes_; }  // the pages of all ranks
  size_t score_board_bytes() const { return board_.bytes(); }
  // The least of all ranks' page memory.
  HugePages huge_pages() const;

  // float importance[channel][page][token][kv_head], as workers write it. CacheGeometry says how
  // many channels there are.
  const float* score_board() const { return static_cast<const float*>(board_.address()); }

 private:
  friend class AwaitedMemory;
  friend std::map<std::string, uint64_t> TakenBy(const PoolExport& memory);
  PoolExport() = default;

  std::vector<std::unique_ptr<PageMemory>> pools_;  // by rank; null until it was brought
  std::vector<PagePlace> places_;                   // by rank
  SealedMemory board_;
  std::vector<SealedMemory> swap_;  // by rank, or empty
  bool awaited_ = false;            // see AwaitedMemory
  size_t pool_bytes_ = 0;
  size_t swap_bytes_ = 0;
};

// The bytes that the pages take now, by device. Memory of the host counts once it was written, and
// not if it was awaited, because it may come while this is asked.
std::map<std::string, uint64_t> TakenBy(const PoolExport& memory);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
