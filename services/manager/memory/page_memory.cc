#include "services/manager/memory/page_memory.h"

namespace folio::manager {

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

}  // namespace folio::manager
