// PageClearing knows whether pages that are given out may hold K and V of another tenant. Workers
// then clear them before they write them.
//
// While all sequences of a pool have been of one tenant, no page holds anything of another. From
// the second tenant's first pages on each page that is given out counts as used. To know the last
// user of each page would spare little, because clearing a page costs a small part of computing
// what is written to it.
//
// Thread-compatible, guarded by the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_PAGE_CLEARING_H_
#define FOLIO_SERVICES_CACHE_PAGE_CLEARING_H_

#include <cstdint>
#include <optional>
#include <string>

namespace folio::cache {

enum class ClearPages : uint8_t { kNever, kBetweenTenants, kAlways };

// The rule for memory that sequences of unknown tenants have used before.
inline ClearPages ForUsedMemory(ClearPages rule) {
  return rule == ClearPages::kBetweenTenants ? ClearPages::kAlways : rule;
}

class PageClearing {
 public:
  explicit PageClearing(ClearPages rule) : needed_(rule == ClearPages::kAlways), rule_(rule) {}

  // Pages are given to a sequence of this tenant.
  void OnPagesFor(const std::string& tenant) {
    if (needed_ || rule_ == ClearPages::kNever) return;
    if (!first_tenant_.has_value()) first_tenant_ = tenant;
    needed_ = tenant != *first_tenant_;
  }
  bool needed() const { return needed_; }

 private:
  bool needed_;
  const ClearPages rule_;
  std::optional<std::string> first_tenant_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_PAGE_CLEARING_H_
