// The memory of a pool: page memory of each tensor-parallel rank and one score board. The board is
// a sealed memfd of the host wherever the pages are.
#ifndef FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
#define FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/common/geometry.h"
#include "services/common/ids.h"
#include "services/manager/page_memory.h"
#include "services/manager/sealed_memory.h"

namespace folio::manager {

// Owns the memory. Immutable, so any thread may read it. The board is zero at first.
class PoolExport {
 public:
  // For each of `ranks` page memory of num_pages * page_bytes from `source`, the board of the whole
  // `geometry`'s score_board_floats(num_pages). Errors as of PageSource::Allocate.
  static absl::StatusOr<PoolExport> Create(const PageSource& source, const CacheGeometry& geometry,
                                           absl::Span<const CacheGeometry> ranks,
                                           PageCount num_pages);
  // Of one rank.
  static absl::StatusOr<PoolExport> Create(const PageSource& source, const CacheGeometry& geometry,
                                           PageCount num_pages) {
    return Create(source, geometry, {&geometry, 1}, num_pages);
  }

  PoolExport(PoolExport&& other) = default;
  PoolExport& operator=(PoolExport&& other) = default;

  size_t ranks() const { return pools_.size(); }
  int pool_fd(Rank rank = Rank(0)) const { return pools_[rank.value()]->fd(); }
  const PagePlace& place(Rank rank = Rank(0)) const { return pools_[rank.value()]->place(); }
  int score_board_fd() const { return board_.fd(); }
  size_t pool_bytes() const { return pool_bytes_; }  // of the pages of all ranks
  size_t score_board_bytes() const { return board_.bytes(); }
  // What all ranks' page memory has at least.
  HugePages huge_pages() const;

  // float importance[page][token][kv_head], as workers write it.
  const float* score_board() const { return static_cast<const float*>(board_.address()); }

 private:
  PoolExport() = default;

  std::vector<std::unique_ptr<PageMemory>> pools_;  // by rank
  SealedMemory board_;
  size_t pool_bytes_ = 0;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
