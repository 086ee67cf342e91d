// LoseWhileParked loses the worker of a parked sequence. Tests begin with it that let the sequence
// outlive that worker.
#ifndef FOLIO_TESTS_WORKER_LOST_WHILE_PARKED_H_
#define FOLIO_TESTS_WORKER_LOST_WHILE_PARKED_H_

#include <cstdint>
#include <vector>

#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {

struct LostSequence {
  std::vector<uint32_t> tokens;  // those that its client had
  SequenceRequest resume;        // asks another worker for it
};

// Starts the step loop, whose pool must be optimistic and have pages for 480 tokens. Runs `ask`
// beside an older sequence of 430 tokens, and breaks the link when the manager has parked it, or
// with `swapped` when its contents are in swap memory. Afterwards another worker is there, which is
// not started yet. A test has failed if the sequence was not parked.
LostSequence LoseWhileParked(EngineHarness& harness, const Ask& ask, bool swapped);

}  // namespace folio::worker::testing

#endif  // FOLIO_TESTS_WORKER_LOST_WHILE_PARKED_H_
