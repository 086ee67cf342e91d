// RenderMap draws which positions of a sequence each layer kept, as bars.
#ifndef FOLIO_SERVICES_CLI_PAGE_MAP_H_
#define FOLIO_SERVICES_CLI_PAGE_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "services/cli/terminal.h"
#include "services/client/kept_positions.h"

namespace folio::cli {

using client::PositionRange;
using client::Ranges;

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
