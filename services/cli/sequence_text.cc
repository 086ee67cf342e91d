#include "services/cli/sequence_text.h"

#include "absl/strings/str_cat.h"
#include "services/cli/format.h"

namespace folio::cli {
namespace {

// The pool of a manager without --pools.
constexpr char kDefaultPool[] = "default";

std::string StateName(folio::v1::SequenceState state) {
  switch (state) {
    case folio::v1::SEQUENCE_STATE_PREFILL:
      return "prefill";
    case folio::v1::SEQUENCE_STATE_DECODE:
      return "decode";
    case folio::v1::SEQUENCE_STATE_EVICTING:
      return "evicting";
    case folio::v1::SEQUENCE_STATE_ORPHANED:
      return "orphaned";
    case folio::v1::SEQUENCE_STATE_PARKED:
      return "parked";
    default:
      return "unknown";
  }
}

}  // namespace

std::string StateName(const folio::v1::Sequence& sequence) {
  if (sequence.closing()) return "closing";
  const std::string name = StateName(sequence.state());
  return sequence.pinned() ? name + ", pinned" : name;
}

std::string TenantName(const std::string& tenant) {
  return tenant.empty() ? "-" : QuotePiece(tenant);
}

std::string PoolTitle(const folio::v1::Pool& pool) {
  const bool named = !pool.name().empty() && pool.name() != kDefaultPool;
  return named ? pool.name() : absl::StrCat(pool.pool_id());
}

std::string PoolName(const std::string& pool) { return pool.empty() ? "-" : pool; }

}  // namespace folio::cli
