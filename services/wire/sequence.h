// These functions convert the parts of a session's messages that describe one sequence: scores,
// pages, plans and settings. They are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_WIRE_SEQUENCE_H_
#define FOLIO_SERVICES_WIRE_SEQUENCE_H_

#include <cstdint>

#include "folio/v1/kv_manager.pb.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "services/base/layer_range.h"
#include "services/base/score_kind.h"
#include "services/base/sequence_types.h"
#include "services/base/session_types.h"

namespace folio::wire {

// A kind or time of a later version stays a number that IsKnown refuses.
v1::ScoreNeed ToProto(const ScoreNeed& need);
ScoreNeed FromProto(const v1::ScoreNeed& need);

v1::LayerRange ToProto(const LayerRange& layers);
LayerRange FromProto(const v1::LayerRange& layers);

v1::LayerPages ToProto(const PageList& pages);
// False if the two lists differ in length; `out` is then empty.
bool ReadPages(const v1::LayerPages& pages, PageList* out);

v1::EvictionPlan ToProto(const Plan& plan);
// An action that does not fit `num_layers` becomes an empty one.
Plan FromProto(const v1::EvictionPlan& plan, uint32_t num_layers);

v1::CacheOptions ToProto(const ResolvedCache& cache);
// Precondition: the manager has filled in every default.
ResolvedCache FromProto(const v1::CacheOptions& options);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_SEQUENCE_H_
