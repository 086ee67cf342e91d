// The memory of a pool: page memory and score board, each a memfd that cannot be resized any more,
// so that a worker which maps it can never be cut off by a truncation.
#ifndef FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
#define FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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
  // Page memory of exactly num_pages * page_bytes, the board of
  // score_board_floats(num_pages).
  // Reserved huge pages are used when the size is a multiple of theirs and enough are free.
  static absl::StatusOr<PoolExport> Create(const CacheGeometry& geometry, PageCount num_pages);

  PoolExport(PoolExport&& other) = default;
  PoolExport& operator=(PoolExport&& other) = default;

  int pool_fd() const { return pool_.fd.get(); }
  int score_board_fd() const { return board_.fd.get(); }
  size_t pool_bytes() const { return pool_.bytes; }
  size_t score_board_bytes() const { return board_.bytes; }
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

  Region pool_;
  Region board_;
  HugePages huge_pages_ = HugePages::kNone;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_EXPORT_H_
