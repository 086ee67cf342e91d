#include "services/manager/pool.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/random_bytes.h"
#include "services/manager/awaited_memory.h"
#include "services/runtime/byte_size.h"
#include "services/wire/layout.h"

namespace folio::manager {

namespace state = folio::state::v1;

namespace {

constexpr size_t kIdBytes = 16;

uint64_t PageBytes(const std::vector<CacheGeometry>& ranks) {
  return std::accumulate(ranks.begin(), ranks.end(), uint64_t{0},
                         [](uint64_t sum, const auto& rank) { return sum + rank.page_bytes(); });
}

// How many pages the swap memory holds. Fewer than one for each layer hold no sequence.
absl::StatusOr<uint32_t> SwapSlotsIn(uint64_t bytes, const std::vector<CacheGeometry>& ranks) {
  if (bytes == 0) return 0;
  uint64_t slot_bytes = 0;
  for (const CacheGeometry& rank : ranks) slot_bytes += rank.swap_slot_bytes();
  const uint64_t slots = PagesIn(bytes, slot_bytes);
  const uint64_t least = ranks.front().num_layers;
  if (slots >= least) return static_cast<uint32_t>(slots);
  return absl::FailedPreconditionError(
      absl::StrCat("--host_swap_bytes=", FormatByteSize({bytes}), " holds ", slots, " pages of ",
                   slot_bytes, " bytes with their scores, and a sequence has at least ", least,
                   "; give it ", FormatByteSize({least * slot_bytes}), " or more, or 0"));
}

}  // namespace

Pool::Pool(v1::ModelLayout layout, PageCount num_pages, uint32_t swap_slots, PoolExport memory,
           std::string id, Flags flags)
    : layout_(std::move(layout)),
      geometry_(wire::GeometryOf(layout_)),
      page_bytes_(PageBytes(wire::RankGeometries(layout_))),
      num_pages_(num_pages),
      swap_slots_(swap_slots),
      flags_(std::move(flags)),
      id_(std::move(id)),
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(const v1::ModelLayout& layout,
                                                   const PageSource& source, const PoolSize& size,
                                                   const PoolRules& rules, const PoolUsers& users) {
  if (absl::Status status = wire::CheckLayout(layout); !status.ok()) return status;
  const CacheGeometry geometry = wire::GeometryOf(layout);
  const std::vector<CacheGeometry> ranks = wire::RankGeometries(layout);
  std::vector<uint64_t> rank_page_bytes;
  rank_page_bytes.reserve(ranks.size());
  for (const CacheGeometry& rank : ranks) rank_page_bytes.push_back(rank.page_bytes());
  const uint64_t page_bytes = PageBytes(ranks);
  // A sequence of one token needs one page per layer and one ahead, so fewer pages are useless.
  const uint64_t least = uint64_t{2} * geometry.num_layers;
  const auto fitting = source.PagesThatFit(size, rank_page_bytes, least);
  if (!fitting.ok()) return fitting.status();
  if (*fitting < least) {
    return absl::FailedPreconditionError(
        absl::StrCat("--pool_bytes=", FormatPoolSize(size), " holds ", *fitting, " pages of ",
                     page_bytes, " bytes, and the model needs at least ", least, "; give it ",
                     FormatByteSize({least * page_bytes}), " or more"));
  }
  const PageCount num_pages(static_cast<uint32_t>(*fitting));
  const auto swap_slots = SwapSlotsIn(rules.host_swap_bytes, ranks);
  if (!swap_slots.ok()) return swap_slots.status();
  auto memory = PoolExport::Create(source, geometry, ranks, num_pages, *swap_slots);
  if (!memory.ok()) return memory.status();

  std::unique_ptr<Pool> pool(new Pool(layout, num_pages, *swap_slots, *std::move(memory),
                                      RandomBytes(kIdBytes),
                                      {FormatPoolSize(size), rules.host_swap_bytes}));
  pool->MakeCoordinator(rules, users);
  return pool;
}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Expect(const state::JournalPool& saved,
                                                   const PoolRules& rules, const PoolUsers& users) {
  if (absl::Status status = wire::CheckLayout(saved.layout()); !status.ok()) {
    return absl::InternalError(status.message());
  }
  if (saved.rank_device_size() != saved.rank_memory_size()) {
    return absl::InternalError("the journal's pool is malformed");
  }
  std::vector<PagePlace> places;
  for (int rank = 0; rank < saved.rank_memory_size(); ++rank) {
    places.push_back({.device = saved.rank_device(rank),
                      .device_uuid = saved.rank_memory(rank).device_uuid(),
                      .bytes = saved.rank_memory(rank).bytes()});
  }
  const PageCount num_pages(saved.num_pages());
  auto memory =
      AwaitedMemory::Expect(wire::GeometryOf(saved.layout()), wire::RankGeometries(saved.layout()),
                            num_pages, saved.swap_slots(), std::move(places));
  if (!memory.ok()) return memory.status();
  std::unique_ptr<Pool> pool(new Pool(saved.layout(), num_pages, saved.swap_slots(),
                                      *std::move(memory), saved.pool_id(),
                                      {saved.pool_bytes(), saved.host_swap_bytes()}));
  PoolRules used = rules;
  used.clear_pages = cache::ForUsedMemory(rules.clear_pages);
  pool->MakeCoordinator(used, users);
  return pool;
}

void Pool::MakeCoordinator(const PoolRules& rules, const PoolUsers& users) {
  cache::CoordinatorOptions options;
  options.geometry = geometry_;
  options.num_pages = num_pages_;
  options.lease_ttl = rules.lease_ttl;
  options.orphan_ttl = rules.orphan_ttl;
  options.orphan_grace = rules.orphan_grace;
  options.admission = rules.admission;
  options.default_compaction = rules.default_compaction;
  options.swap_slots = swap_slots_;
  options.decision_threads = rules.decision_threads;
  options.clear_pages = rules.clear_pages;
  options.score_board = memory_.score_board();
  options.ids = users.ids;
  options.clock = users.clock;
  options.observer = users.observer;
  options.quotas = users.quotas;
  options.journal = users.journal;
  coordinator_ = std::make_unique<cache::Coordinator>(options);
  keeps_record_ = users.journal != nullptr;
}

absl::Status Pool::ReplaceMemory(const PageSource& source) {
  id_ = RandomBytes(kIdBytes);  // the old memory is not wanted any more, whatever comes of this
  auto made =
      PoolExport::Create(source, geometry_, wire::RankGeometries(layout_), num_pages_, swap_slots_);
  if (!made.ok()) return made.status();
  return AwaitedMemory(memory_).Replace(*std::move(made));
}

state::JournalPool Pool::Saved() const {
  state::JournalPool saved;
  saved.set_pool_id(id_);
  *saved.mutable_layout() = layout_;
  saved.set_num_pages(num_pages_.value());
  saved.set_swap_slots(swap_slots_);
  saved.set_pool_bytes(flags_.pool_bytes);
  saved.set_host_swap_bytes(flags_.host_swap_bytes);
  for (uint32_t rank = 0; rank < memory_.ranks(); ++rank) {
    const PagePlace& place = memory_.place(Rank(rank));
    saved.add_rank_device(place.device);
    v1::PageMemory* memory = saved.add_rank_memory();
    memory->set_device_uuid(place.device_uuid);
    memory->set_bytes(place.bytes);
  }
  return saved;
}

v1::PoolLayout Pool::Describe(bool maps_swap) const {
  v1::PoolLayout layout;
  layout.set_num_pages(num_pages_.value());
  layout.set_page_bytes(page_bytes_);
  layout.set_pool_bytes(memory_.pool_bytes());
  layout.set_score_board_bytes(memory_.score_board_bytes());
  for (uint32_t rank = 0; rank < memory_.ranks(); ++rank) {
    const PagePlace& place = memory_.place(Rank(rank));
    v1::PageMemory* memory = layout.add_rank_memory();
    memory->set_device_uuid(place.device_uuid);
    memory->set_bytes(place.bytes);
  }
  if (maps_swap) layout.set_swap_slots(swap_slots_);
  if (keeps_record_) layout.set_pool_id(id_);
  return layout;
}

}  // namespace folio::manager
