#include "services/manager/pool_export.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/manager/machine_memory.h"

namespace folio::manager {
namespace {

// Whether the machine backs shared memory with huge pages where a mapping asks for it.
bool GivesTransparentHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string modes;
  return std::getline(file, modes) && TransparentForSharedMemory(modes);
}

}  // namespace

absl::string_view HugePagesName(HugePages kind) {
  switch (kind) {
    case HugePages::kNone:
      return "none";
    case HugePages::kTransparent:
      return "transparent";
    case HugePages::kReserved:
      return "reserved";
  }
  return "?";
}

PoolExport::Mapping& PoolExport::Mapping::operator=(Mapping&& other) noexcept {
  std::swap(address, other.address);
  std::swap(bytes, other.bytes);
  return *this;
}

PoolExport::Mapping::~Mapping() {
  if (address != nullptr) munmap(address, bytes);
}

absl::StatusOr<PoolExport::Region> PoolExport::MakeRegion(const char* name, size_t bytes,
                                                          int protection, unsigned extra_flags) {
  Region region;
  region.bytes = bytes;
  region.fd.Reset(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | extra_flags));
  if (!region.fd.valid()) return absl::ErrnoToStatus(errno, "memfd_create");
  if (ftruncate(region.fd.get(), static_cast<off_t>(bytes)) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot size ", name, " to ", bytes, " bytes"));
  }
  if (fcntl(region.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot seal ", name));
  }
  // The mapping also reserves the huge pages, when there are such.
  void* address = mmap(nullptr, bytes, protection, MAP_SHARED, region.fd.get(), 0);
  if (address == MAP_FAILED) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot map ", bytes, " bytes of ", name));
  }
  region.map = Mapping(address, bytes);
  return region;
}

absl::StatusOr<PoolExport::Region> PoolExport::MakePool(size_t bytes, HugePages* kind) {
  const size_t huge = ReadMachineMemory().huge_page_bytes;
  if (huge != 0 && bytes % huge == 0) {
    auto region = MakeRegion("folio-pool", bytes, PROT_READ | PROT_WRITE, MFD_HUGETLB);
    if (region.ok()) {
      *kind = HugePages::kReserved;
      return region;
    }  // else too few are free: ordinary memory does as well
  }
  *kind = HugePages::kNone;
  auto region = MakeRegion("folio-pool", bytes, PROT_READ | PROT_WRITE, 0);
  if (region.ok() && GivesTransparentHugePages() &&
      madvise(region->map.address, bytes, MADV_HUGEPAGE) == 0) {
    *kind = HugePages::kTransparent;
  }
  return region;
}

absl::StatusOr<PoolExport> PoolExport::Create(const CacheGeometry& geometry,
                                              absl::Span<const CacheGeometry> ranks,
                                              PageCount num_pages) {
  const size_t board_bytes = geometry.score_board_floats(num_pages.value()) * sizeof(float);
  if (board_bytes == 0 || ranks.empty() || geometry.page_bytes() == 0) {
    return absl::InvalidArgumentError("a pool needs at least one page");
  }
  PoolExport made;
  made.huge_pages_ = HugePages::kReserved;
  for (const CacheGeometry& rank : ranks) {
    HugePages kind = HugePages::kNone;
    auto region = MakePool(size_t{num_pages.value()} * rank.page_bytes(), &kind);
    if (!region.ok()) return region.status();
    made.pools_.push_back(*std::move(region));
    made.huge_pages_ = std::min(made.huge_pages_, kind);
  }
  auto board = MakeRegion("folio-scores", board_bytes, PROT_READ, 0);
  if (!board.ok()) return board.status();
  made.board_ = *std::move(board);
  return made;
}

size_t PoolExport::pool_bytes() const {
  size_t bytes = 0;
  for (const Region& pool : pools_) bytes += pool.bytes;
  return bytes;
}

}  // namespace folio::manager
