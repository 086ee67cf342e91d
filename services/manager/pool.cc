#include "services/manager/pool.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cache/inspector.h"
#include "services/runtime/byte_size.h"
#include "services/wire/layout.h"

namespace folio::manager {
namespace {

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

Pool::Pool(v1::ModelLayout layout, const CacheGeometry& geometry, uint32_t ranks,
           uint64_t page_bytes, uint32_t swap_slots, PoolExport memory)
    : layout_(std::move(layout)),
      geometry_(geometry),
      ranks_(ranks),
      page_bytes_(page_bytes),
      swap_slots_(swap_slots),
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Create(const v1::ModelLayout& layout,
                                                   const PageSource& source, const PoolSize& size,
                                                   const PoolRules& rules, const Clock* clock,
                                                   cache::CoordinatorObserver* observer,
                                                   cache::LastIds last_ids,
                                                   const cache::TenantQuotas* quotas) {
  if (absl::Status status = wire::CheckLayout(layout); !status.ok()) return status;
  const CacheGeometry geometry = wire::GeometryOf(layout);
  const std::vector<CacheGeometry> ranks = wire::RankGeometries(layout);
  std::vector<uint64_t> rank_page_bytes;
  rank_page_bytes.reserve(ranks.size());
  for (const CacheGeometry& rank : ranks) rank_page_bytes.push_back(rank.page_bytes());
  const uint64_t page_bytes =
      std::accumulate(rank_page_bytes.begin(), rank_page_bytes.end(), uint64_t{0});
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

  std::unique_ptr<Pool> pool(new Pool(layout, geometry, static_cast<uint32_t>(ranks.size()),
                                      page_bytes, *swap_slots, *std::move(memory)));
  cache::CoordinatorOptions options;
  options.geometry = geometry;
  options.num_pages = num_pages;
  options.lease_ttl = rules.lease_ttl;
  options.orphan_ttl = rules.orphan_ttl;
  options.orphan_grace = rules.orphan_grace;
  options.admission = rules.admission;
  options.default_compaction = rules.default_compaction;
  options.swap_slots = *swap_slots;
  options.decision_threads = rules.decision_threads;
  options.score_board = pool->memory_.score_board();
  options.last_ids = last_ids;
  options.clock = clock;
  options.observer = observer;
  options.quotas = quotas;
  pool->coordinator_ = std::make_unique<cache::Coordinator>(options);
  return pool;
}

v1::PoolLayout Pool::Describe(bool maps_swap) const {
  v1::PoolLayout layout;
  layout.set_num_pages(cache::Inspector(*coordinator_).pool().total.value());
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
  return layout;
}

}  // namespace folio::manager
