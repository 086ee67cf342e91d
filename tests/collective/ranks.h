// RunRanks starts the ranks of a group, as threads or as processes, and reports the result of each.
#ifndef FOLIO_TESTS_COLLECTIVE_RANKS_H_
#define FOLIO_TESTS_COLLECTIVE_RANKS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "services/collective/collective.h"

namespace folio::collective::testing {

// Threads that form a group as processes do have a mapping each, in which ThreadSanitizer cannot
// see that they share it. So there are also threads of one mapping.
enum class RanksAre { kThreads, kThreadsOfOneMapping, kProcesses };

// The work of a rank. It returns an error text, or nothing. It must not use GoogleTest assertions,
// because they would be lost in another process.
using RankBody = std::function<std::string(Collective&)>;

// The result of a rank whose process was killed.
inline constexpr char kKilled[] = "killed";

// Runs `body` on every rank of a new group and returns the error texts by rank. A rank's collective
// is destroyed when `body` returns. Ranks that are processes are forked, so the process may have
// only one thread.
std::vector<std::string> RunRanks(RanksAre kind, uint32_t ranks, size_t buffer_bytes,
                                  const RankBody& body);

// Ends this rank at once and without notice. A process is killed. A thread returns this function's
// result, which destroys its collective.
std::string Die(RanksAre kind);

}  // namespace folio::collective::testing

#endif  // FOLIO_TESTS_COLLECTIVE_RANKS_H_
