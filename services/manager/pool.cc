#include "services/manager/pool.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/byte_size.h"
#include "services/manager/convert.h"

namespace folio::manager {

Pool::Pool(v1::ModelLayout layout, const CacheGeometry& geometry, uint32_t ranks,
           uint64_t page_bytes, PoolExport memory)
    : layout_(std::move(layout)),
      geometry_(geometry),
      ranks_(ranks),
      page_bytes_(page_bytes),
      memory_(std::move(memory)) {}

absl::StatusOr<std::unique_ptr<Pool>> Pool::Carve(const v1::ModelLayout& layout,
                                                  const PageSource& source, const PoolSize& size,
                                                  absl::Duration lease_ttl,
                                                  absl::Duration orphan_ttl, const Clock* clock) {
  auto geometry = GeometryFromProto(layout);
  if (!geometry.ok()) return geometry.status();
  const std::vector<CacheGeometry> ranks = RankGeometries(layout);
  std::vector<uint64_t> rank_page_bytes;
  rank_page_bytes.reserve(ranks.size());
  for (const CacheGeometry& rank : ranks) rank_page_bytes.push_back(rank.page_bytes());
  const uint64_t page_bytes =
      std::accumulate(rank_page_bytes.begin(), rank_page_bytes.end(), uint64_t{0});
  // Less than one page and one ahead per layer could not hold a single token's sequence.
  const uint64_t least = uint64_t{2} * geometry->num_layers;
  const auto fitting = source.PagesThatFit(size, rank_page_bytes, least);
  if (!fitting.ok()) return fitting.status();
  if (*fitting < least) {
    return absl::FailedPreconditionError(
        absl::StrCat("--pool_bytes=", FormatPoolSize(size), " holds ", *fitting, " pages of ",
                     page_bytes, " bytes, and the model needs at least ", least, "; give it ",
                     FormatByteSize({least * page_bytes}), " or more"));
  }
  const PageCount num_pages(static_cast<uint32_t>(*fitting));
  auto memory = PoolExport::Create(source, *geometry, ranks, num_pages);
  if (!memory.ok()) return memory.status();

  std::unique_ptr<Pool> pool(new Pool(layout, *geometry, static_cast<uint32_t>(ranks.size()),
                                      page_bytes, *std::move(memory)));
  cache::CoordinatorOptions options;
  options.geometry = *geometry;
  options.num_pages = num_pages;
  options.lease_ttl = lease_ttl;
  options.orphan_ttl = orphan_ttl;
  options.score_board = pool->memory_.score_board();
  options.clock = clock;
  pool->coordinator_ = std::make_unique<cache::Coordinator>(options);
  return pool;
}

}  // namespace folio::manager
