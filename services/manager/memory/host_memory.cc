#include "services/manager/memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/manager/memory/machine_memory.h"
#include "services/manager/memory/sealed_memory.h"

namespace folio::manager {
namespace {

// Whether the machine backs shared memory with huge pages where a mapping asks for it.
bool GivesTransparentHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string modes;
  return std::getline(file, modes) && TransparentForSharedMemory(modes);
}

class HostPages final : public PageMemory {
 public:
  HostPages(SealedMemory memory, HugePages kind) : memory_(std::move(memory)) {
    place_.bytes = memory_.bytes();
    place_.huge_pages = kind;
  }
  int fd() const override { return memory_.fd(); }
  const PagePlace& place() const override { return place_; }

 private:
  SealedMemory memory_;
  PagePlace place_;
};

}  // namespace

absl::Status HostMemory::CheckSize(const PoolSize& size) const {
  const MachineMemory memory = ReadMachineMemory();
  if (size.is_share() && memory.available == 0) {
    return absl::FailedPreconditionError(
        "the machine does not tell its memory; give a size like 2GiB");
  }
  if (memory.total != 0 && size.bytes > memory.total) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the machine has only ", memory.total >> 20, "MiB; give less"));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> HostMemory::PagesThatFit(const PoolSize& size,
                                                  absl::Span<const uint64_t> rank_page_bytes,
                                                  uint64_t least) const {
  uint64_t page_bytes = 0, common = 0;
  for (const uint64_t bytes : rank_page_bytes) {
    page_bytes += bytes;
    common = std::gcd(common, bytes);
  }
  const MachineMemory memory = ReadMachineMemory();
  const uint64_t bytes =
      size.is_share() ? static_cast<uint64_t>(static_cast<double>(memory.available) * size.share)
                      : size.bytes;
  return PagesThatFillHugePages(PagesIn(bytes, page_bytes), common, least, memory);
}

absl::StatusOr<std::unique_ptr<PageMemory>> HostMemory::Allocate(Rank rank, size_t bytes) const {
  const size_t huge = ReadMachineMemory().huge_page_bytes;
  if (huge != 0 && bytes % huge == 0) {
    auto memory = SealedMemory::Make("folio-pool", bytes, PROT_READ | PROT_WRITE, MFD_HUGETLB);
    if (memory.ok()) return std::make_unique<HostPages>(*std::move(memory), HugePages::kReserved);
    // Too few are free: ordinary memory does as well.
  }
  auto memory = SealedMemory::Make("folio-pool", bytes, PROT_READ | PROT_WRITE, 0);
  if (!memory.ok()) return memory.status();
  const bool transparent =
      GivesTransparentHugePages() && madvise(memory->address(), bytes, MADV_HUGEPAGE) == 0;
  return std::make_unique<HostPages>(*std::move(memory),
                                     transparent ? HugePages::kTransparent : HugePages::kNone);
}

}  // namespace folio::manager
