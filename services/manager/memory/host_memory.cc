#include "services/manager/memory/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/manager/memory/machine_memory.h"
#include "services/runtime/byte_size.h"
#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

// Whether the machine backs shared memory with huge pages where a mapping asks for it.
bool GivesTransparentHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string modes;
  return std::getline(file, modes) && TransparentForSharedMemory(modes);
}

// Whether a pool of this size goes into the huge pages that the operator has reserved, which
// MemAvailable does not count.
bool FitsReservedPages(uint64_t bytes, const MachineMemory& memory) {
  return memory.huge_page_bytes != 0 && bytes <= memory.huge_page_bytes * memory.free_huge_pages;
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
  const bool known = memory.available != 0 && !size.is_share();
  if (!known || size.bytes <= memory.available || FitsReservedPages(size.bytes, memory)) {
    return absl::OkStatus();
  }
  if (prefault_) {
    return absl::ResourceExhaustedError(absl::StrCat("only ", memory.available >> 20,
                                                     "MiB are free, and --prefault takes all at "
                                                     "once; give less"));
  }
  log::Warning("the pool is larger than the memory that is free; workers end when it runs out",
               {{"pool_bytes", size.bytes}, {"available_bytes", memory.available}});
  return absl::OkStatus();
}

absl::Status HostMemory::Prefault(Rank rank, const SealedMemory& memory, HugePages kind) const {
  if (!prefault_) return absl::OkStatus();
  const uint64_t available = ReadMachineMemory().available;
  if (kind != HugePages::kReserved && available != 0 && memory.bytes() > available) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "--prefault: the pages of rank ", rank.value(), " need ", FormatByteSize({memory.bytes()}),
        ", and only ", available >> 20, "MiB are free; give less --pool_bytes"));
  }
  size_t shown = 0;
  absl::Status status = memory.TakeAll([&](size_t taken) {
    const size_t percent = taken / (memory.bytes() / 100 + 1);
    if (percent < shown + 10 && taken < memory.bytes()) return;
    shown = percent;
    log::Info("taking the pool's memory",
              {{"rank", rank}, {"bytes", taken}, {"of_bytes", memory.bytes()}});
  });
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("--prefault: ", status.message(), "; give less --pool_bytes"));
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
      size.is_share() ? size.ShareOf(PagePlace().device, memory.available) : size.bytes;
  return PagesThatFillHugePages(PagesIn(bytes, page_bytes), common, least, memory);
}

absl::StatusOr<std::unique_ptr<PageMemory>> HostMemory::Allocate(Rank rank, size_t bytes) const {
  const size_t huge = ReadMachineMemory().huge_page_bytes;
  if (huge != 0 && bytes % huge == 0) {
    auto memory = SealedMemory::Make("folio-pool", bytes, PROT_READ | PROT_WRITE, MFD_HUGETLB);
    if (memory.ok()) {
      absl::Status status = Prefault(rank, *memory, HugePages::kReserved);
      if (!status.ok()) return status;
      return std::make_unique<HostPages>(*std::move(memory), HugePages::kReserved);
    }
    // Too few are free: ordinary memory does as well.
  }
  auto memory = SealedMemory::Make("folio-pool", bytes, PROT_READ | PROT_WRITE, 0);
  if (!memory.ok()) return memory.status();
  const bool transparent =
      GivesTransparentHugePages() && madvise(memory->address(), bytes, MADV_HUGEPAGE) == 0;
  const HugePages kind = transparent ? HugePages::kTransparent : HugePages::kNone;
  if (absl::Status status = Prefault(rank, *memory, kind); !status.ok()) return status;
  return std::make_unique<HostPages>(*std::move(memory), kind);
}

}  // namespace folio::manager
