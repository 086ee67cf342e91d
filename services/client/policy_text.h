// A policy as one word of a command line, and back:
//
//   full  paged_eviction  streaming_llm  inverse_key_norm  key_diff
//   snap_kv[:window=64][,pool=7]  query_diff[:share=0.5][,window=16][,pool=31]  random[:seed=0]
//   kv_crush[:BASE][,share=0.25][,anchor=mean|alternating|zeros|ones|random][,seed=0]
//           [,decode=base|crush]
//
// BASE is one of paged_eviction (the default), inverse_key_norm, key_diff and snap_kv; the last
// one's window and pool go into the same list. What is left out has the server's default. Names and
// parameters are those of the protocol's messages; which values are in range the server knows.
#ifndef FOLIO_SERVICES_CLIENT_POLICY_TEXT_H_
#define FOLIO_SERVICES_CLIENT_POLICY_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "folio/v1/types.pb.h"

namespace folio::client {

// INVALID_ARGUMENT names what is not understood and what would be.
absl::StatusOr<folio::v1::Policy> ParsePolicy(absl::string_view text);

// "kv_crush:key_diff,share=0.25,anchor=mean"; "full" for a policy of no kind.
std::string PolicyText(const folio::v1::Policy& policy);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_POLICY_TEXT_H_
