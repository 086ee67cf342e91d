#include "services/cli/sequence_text.h"

#include "services/cli/format.h"

namespace folio::cli {
namespace {

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

}  // namespace folio::cli
