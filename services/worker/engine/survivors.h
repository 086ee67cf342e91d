// Survivors knows the logical positions of the tokens that compactions left of a prompt. A plan
// names token slots, and a client is told positions, which differ from them after the first
// compaction. A sequence that another worker had reports none. Only the step loop's thread uses it.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_SURVIVORS_H_
#define FOLIO_SERVICES_WORKER_ENGINE_SURVIVORS_H_

#include <cstdint>
#include <vector>

#include "services/base/ids.h"
#include "services/base/session_types.h"
#include "services/model/executor/block_tables.h"
#include "services/worker/engine/events.h"

namespace folio::worker {

class Survivors {
 public:
  Survivors() = default;
  // Nothing has gone yet.
  explicit Survivors(uint32_t num_layers) : layers_(num_layers) {}

  // Returns the positions that `action` keeps in each layer, and remembers them. `table` is the
  // sequence's before the compaction, and the cache has seen the prompt's first `seen` tokens.
  std::vector<Eviction::Layer> Keep(const CompactAction& action, const model::BlockTables& table,
                                    TokenCount seen);

 private:
  // [layer] of the first resident tokens. The others are the last ones that the cache has seen.
  std::vector<std::vector<Position>> layers_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_SURVIVORS_H_
