// KeptPositions shows which positions of a sequence each layer kept. It is gathered from the
// eviction events of a request with report_evictions.
#ifndef FOLIO_SERVICES_CLIENT_KEPT_POSITIONS_H_
#define FOLIO_SERVICES_CLIENT_KEPT_POSITIONS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "folio/v1/inference.pb.h"

namespace folio::client {

// Positions [begin, end).
struct PositionRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const PositionRange&) const = default;
};
using Ranges = std::vector<PositionRange>;  // ascending, apart from each other

// How many positions of the ranges are in [begin, end).
uint32_t CountBetween(const Ranges& ranges, uint32_t begin, uint32_t end);
uint32_t CountPositions(const Ranges& ranges);

// Replays a sequence's eviction events. Without events, every position is kept. Thread-compatible.
class KeptPositions {
 public:
  // `page_tokens` > 0.
  KeptPositions(uint32_t layers, uint32_t page_tokens, uint32_t prompt_tokens);

  // Takes events in the order in which they came. INVALID_ARGUMENT if one contradicts earlier ones.
  absl::Status Apply(const folio::v1::EvictionEvent& event);
  // Tokens up to `length` have been fed.
  void Extend(uint32_t length);

  // [layer]
  const std::vector<Ranges>& layers() const { return kept_; }

 private:
  const uint32_t page_tokens_;
  const uint32_t prompt_tokens_;
  uint32_t length_;
  std::vector<Ranges> kept_;
};

// Positions fed to the model. The last token was only given out, so it does not count.
uint32_t LengthAtEnd(const folio::v1::Usage& usage);

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_KEPT_POSITIONS_H_
