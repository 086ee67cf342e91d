// The memory of a pool: page memory of each tensor-parallel rank and one score board, each a memfd
// that cannot be resized any more, so that a worker which maps it can never be cut off by a
// truncation.
#ifndef FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
#define FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "services/common/geometry.h"
#include "services/common/ids.h"
#include "services/common/unique_fd.h"

namespace folio::manager {

enum class HugePages {
  kNone,
  kTransparent,  // the kernel backs shared memory with huge pages where a mapping asks for it
  kReserved,     // from the machine's reserved huge pages (hugetlb)
};
absl::string_view HugePagesName(HugePages kind);

// Owns descriptors and mappings. Immutable, so any thread may read it; memory is zero at first and
// taken from the machine page by page as workers write it.
class PoolExport {
 public:
  // For each of `ranks` page memory of exactly num_pages * page_bytes, the board of the whole
  // `geometry`'s score_board_floats(num_pages).
  // Reserved huge pages are used when the size is a multiple of theirs and enough are free.
  static absl::StatusOr<PoolExport> Create(const CacheGeometry& geometry,
                                           absl::Span<const CacheGeometry> ranks,
                                           PageCount num_pages);
  // Of one rank.
  static absl::StatusOr<PoolExport> Create(const CacheGeometry& geometry, PageCount num_pages) {
    return Create(geometry, {&geometry, 1}, num_pages);
  }

  PoolExport(PoolExport&& other) = default;
  PoolExport& operator=(PoolExport&& other) = default;

  int pool_fd(Rank rank = Rank(0)) const { return pools_[rank.value()].fd.get(); }
  int score_board_fd() const { return board_.fd.get(); }
  size_t pool_bytes() const;  // of all ranks
  size_t score_board_bytes() const { return board_.bytes; }
  // What all ranks' page memory has at least.
  HugePages huge_pages() const { return huge_pages_; }

  // float importance[page][token][kv_head], as workers write it.
  const float* score_board() const { return static_cast<const float*>(board_.map.address); }

 private:
  struct Mapping {
    Mapping() = default;
    Mapping(void* at, size_t size) : address(at), bytes(size) {}
    Mapping(Mapping&& other) noexcept { *this = std::move(other); }
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();
    void* address = nullptr;
    size_t bytes = 0;
  };
  struct Region {
    UniqueFd fd;
    Mapping map;
    size_t bytes = 0;
  };

  PoolExport() = default;
  static absl::StatusOr<Region> MakeRegion(const char* name, size_t bytes, int protection,
                                           unsigned extra_flags);
  static absl::StatusOr<Region> MakePool(size_t bytes, HugePages* kind);

  std::vector<Region> pools_;  // by rank
  Region board_;
  HugePages huge_pages_ = HugePages::kNone;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
