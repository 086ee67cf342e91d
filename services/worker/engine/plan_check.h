// These functions check what the manager tells the worker to do to a sequence's tables, before any
// of it is done. A table that was edited by a wrong plan could not be repaired, so a plan that
// fails ends its sequence and leaves the tables as they are.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_PLAN_CHECK_H_
#define FOLIO_SERVICES_WORKER_ENGINE_PLAN_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "services/base/session_types.h"
#include "services/model/executor/block_tables.h"
#include "services/worker/engine/sequence_state.h"

namespace folio::worker {

// True if there is a list for every layer and every page is inside the pool.
bool PagesFit(const LayerPageLists& pages, uint32_t num_layers, uint32_t num_pages);
bool PagesFit(const PageList& pages, uint32_t num_pages);

// OK if the plan fits the phase and the block tables of its sequence. A compaction comes once, when
// the prompt is over its budget; it keeps ascending resident tokens and no more pages than there
// are. A drop comes in decode and names full blocks. INTERNAL otherwise.
absl::Status ValidatePlan(const Plan& plan, Phase phase, const model::BlockTables& table);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_PLAN_CHECK_H_
