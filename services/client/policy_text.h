// ParsePolicy and PolicyText convert a policy to and from one word of a command line:
//
//   full  paged_eviction  streaming_llm  and so on, a name of the protocol's Policy.kind
//   snap_kv[:window=64][,pool=7]  random[:seed=0]
//   query_diff[:share=0.25][,window=16][,pool=15][,neighbours=8][,judges_from=0.667][,judges_to=0.833]
//   kv_crush[:BASE][,share=0.25][,anchor=mean|alternating|zeros|ones|random][,seed=0]
//           [,decode=base|crush]
//
// BASE is one of paged_eviction (the default), inverse_key_norm, key_diff and snap_kv, whose window
// and pool go into the same list. Parameters that are left out have the server's defaults. Names
// and parameters are those of the protocol's messages, and the server checks the ranges of values.
#ifndef FOLIO_SERVICES_CLIENT_POLICY_TEXT_H_
#define FOLIO_SERVICES_CLIENT_POLICY_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "folio/v1/types.pb.h"

namespace folio::client {

// INVALID_ARGUMENT names the word that is not understood, and the words that are.
absl::StatusOr<folio::v1::Policy> ParsePolicy(absl::string_view text);

// The forms above without their defaults, as the protocol defines them: "full", "paged_eviction",
// ..., "snap_kv[:window=N][,pool=N]", ...
std::vector<std::string> PolicyForms();

// For example "kv_crush:key_diff,share=0.25,anchor=mean", or "full" for a policy without a kind.
std::string PolicyText(const folio::v1::Policy& policy);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_POLICY_TEXT_H_
