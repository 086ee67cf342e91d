#include "services/worker/gpu.h"

#include "absl/strings/str_cat.h"

namespace folio::worker {

std::string GpuFacts::ToString() const { return absl::StrCat("cuda:", number, " ", name); }

}  // namespace folio::worker
