#include "services/manager/pool_export.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

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

absl::StatusOr<PoolExport> PoolExport::Create(const CacheGeometry& geometry, PageCount num_pages) {
  const size_t pool_bytes = size_t{num_pages.value()} * geometry.page_bytes();
  const size_t board_bytes = geometry.score_board_floats(num_pages.value()) * sizeof(float);
  if (pool_bytes == 0 || board_bytes == 0) {
    return absl::InvalidArgumentError("a pool needs at least one page");
  }
  PoolExport made;
  const size_t huge = ReadMachineMemory().huge_page_bytes;
  if (huge != 0 && pool_bytes % huge == 0) {
    auto region = MakeRegion("folio-pool", pool_bytes, PROT_READ | PROT_WRITE, MFD_HUGETLB);
    if (region.ok()) {
      made.pool_ = *std::move(region);
      made.huge_pages_ = HugePages::kReserved;
    }  // else too few are free: ordinary memory does as well
  }
  if (made.huge_pages_ == HugePages::kNone) {
    auto region = MakeRegion("folio-pool", pool_bytes, PROT_READ | PROT_WRITE, 0);
    if (!region.ok()) return region.status();
    made.pool_ = *std::move(region);
    if (GivesTransparentHugePages() &&
        madvise(made.pool_.map.address, pool_bytes, MADV_HUGEPAGE) == 0) {
      made.huge_pages_ = HugePages::kTransparent;
    }
  }
  auto board = MakeRegion("folio-scores", board_bytes, PROT_READ, 0);
  if (!board.ok()) return board.status();
  made.board_ = *std::move(board);
  return made;
}

}  // namespace folio::manager
