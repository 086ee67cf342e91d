// KeptPositions shows which positions of a sequence each layer kept. It is gathered from eviction
// events and drawn as bars.
#ifndef FOLIO_SERVICES_CLI_PAGE_MAP_H_
#define FOLIO_SERVICES_CLI_PAGE_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "folio/v1/inference.pb.h"
#include "services/cli/terminal.h"

namespace folio::cli {

// Positions [begin, end).
struct PositionRange {
  uint32_t begin = 0;
  uint32_t end = 0;
  bool operator==(const PositionRange&) const = default;
};
using Ranges = std::vector<PositionRange>;  // ascending, apart from each other

// Replays a sequence's eviction events. Without events, every position is kept.
class KeptPositions {
 public:
  KeptPositions(uint32_t layers, uint32_t page_tokens, uint32_t prompt_tokens);

  // Takes events in the order in which they came. INVALID_ARGUMENT if one contradicts earlier ones.
  absl::Status Apply(const folio::v1::EvictionEvent& event);
  // Tokens up to `length` have been fed.
  void Extend(uint32_t length);

  std::vector<Ranges> layers() const;

 private:
  const uint32_t page_tokens_;
  const uint32_t prompt_tokens_;
  uint32_t length_;
  std::vector<std::vector<uint32_t>> kept_;  // [layer][kept positions, ascending]
};

uint32_t CountPositions(const Ranges& ranges);

// One character per `length / width` positions, which shows the share that is kept, from nothing
// (space) to all. `length` > 0. The bar is never wider than `length`.
std::string RenderBar(const Ranges& ranges, uint32_t length, int width, bool utf8);

struct MapOptions {
  uint32_t prompt_tokens = 0;
  uint32_t length = 0;  // positions the map covers
  int max_rows = 0;     // evenly chosen layers, or 0 for all
  bool scale = true;    // end with a line that explains the bars
};
// A bar per layer, where neighbouring layers that kept the same positions share one line. `notes`
// (none, or one per layer) stand behind the bars. Every line ends in a line break.
std::string RenderMap(const std::vector<Ranges>& layers, absl::Span<const std::string> notes,
                      const MapOptions& options, const Terminal& terminal);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_PAGE_MAP_H_
