// Starts the ranks of a group, as threads or as processes, and learns what became of each.
#ifndef FOLIO_TESTS_COLLECTIVE_RANKS_H_
#define FOLIO_TESTS_COLLECTIVE_RANKS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "services/collective/collective.h"

namespace folio::collective::testing {

enum class RanksAre { kThreads, kProcesses };

// What a rank does; returns what went wrong, or nothing. No GoogleTest assertions in it: in another
// process nobody hears them.
using RankBody = std::function<std::string(Collective&)>;

// Of a rank whose process was killed.
inline constexpr char kKilled[] = "killed";

// Runs `body` on every rank of a new group; the rank's collective goes when it returns. What went
// wrong, by rank. As processes, all ranks are forked: there must be no other thread then.
std::vector<std::string> RunRanks(RanksAre kind, uint32_t ranks, size_t buffer_bytes,
                                  const RankBody& body);

// This rank ends here and now, without a word: its process is killed; a thread lets go of its
// collective by returning what this returns.
std::string Die(RanksAre kind);

}  // namespace folio::collective::testing

#endif  // FOLIO_TESTS_COLLECTIVE_RANKS_H_
