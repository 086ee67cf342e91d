// These functions read the protocol's ModelLayout, which says for what model a pool's pages are.
// They are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_WIRE_LAYOUT_H_
#define FOLIO_SERVICES_WIRE_LAYOUT_H_

#include <vector>

#include "absl/status/status.h"
#include "folio/v1/types.pb.h"
#include "services/base/geometry.h"

namespace folio::wire {

// INVALID_ARGUMENT names the field of a layout that no pool can have.
absl::Status CheckLayout(const v1::ModelLayout& layout);

// Writes a whole model's geometry into its layout.
void SetGeometry(const CacheGeometry& geometry, v1::ModelLayout* layout);
// The geometry of the whole model's cache. Precondition: CheckLayout is content.
CacheGeometry GeometryOf(const v1::ModelLayout& layout);
// The geometry of each tensor-parallel rank's cache. There is at least one rank.
std::vector<CacheGeometry> RankGeometries(const v1::ModelLayout& layout);

// FAILED_PRECONDITION names every field that differs, with both values: "layout.head_dim: the pool
// has 64, the worker 128".
absl::Status CompareLayouts(const v1::ModelLayout& pool, const v1::ModelLayout& worker);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_LAYOUT_H_
