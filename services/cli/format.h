// These functions write numbers and messages as text.
#ifndef FOLIO_SERVICES_CLI_FORMAT_H_
#define FOLIO_SERVICES_CLI_FORMAT_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "folio/v1/types.pb.h"

namespace folio::cli {

std::string FormatCount(uint64_t value);                           // 1,445
std::string FormatCount(uint64_t value, absl::string_view thing);  // "1 page", "1,445 pages"
std::string FormatBytes(uint64_t bytes);                           // 512 B, 1.5 KiB, 2.0 GiB
std::string FormatSeconds(double seconds);  // 250 us, 12.3 ms, 4.56 s, 2 m 5 s
std::string FormatRate(double per_second);  // 59.1/s; "-" when not finite or zero

// A token's bytes for a table, quoted and with escapes for unprintable bytes.
std::string QuotePiece(absl::string_view bytes);

// As in services/client/policy_text.h, for example "kv_crush:key_diff,share=0.25".
std::string PolicyName(const folio::v1::CacheOptions& cache);
// "paged_eviction, budget 256, sink 16, recent 16, pipelined".
std::string DescribeCache(const folio::v1::CacheOptions& cache);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_FORMAT_H_
