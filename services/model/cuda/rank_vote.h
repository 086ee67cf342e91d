// Vote asks all ranks of a group whether they can do something that only all of them may do, such
// as recording a decode step as a graph.
#ifndef FOLIO_SERVICES_MODEL_CUDA_RANK_VOTE_H_
#define FOLIO_SERVICES_MODEL_CUDA_RANK_VOTE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/steady_time.h"
#include "services/collective/collective.h"

namespace folio::model {

// All ranks of `host` call it together, at the same place in the order of their other calls, and
// each gets the same answer. `objection` is empty if this rank agrees, and otherwise says why not.
// The answer is empty if all ranks agree, and otherwise names the first rank that does not and
// gives its objection, cut to some 200 bytes. Waits for all ranks.
//
// `subject` is a number of what is voted on. Ranks that vote on different subjects no longer do the
// same steps: this ends the group with INTERNAL. Other errors are those of `host`.
absl::StatusOr<std::string> Vote(collective::Collective& host, uint64_t subject,
                                 absl::string_view objection, SteadyTime deadline);

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_CUDA_RANK_VOTE_H_
