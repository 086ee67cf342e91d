// HeatStrip is the scores of a layer as a line of characters. The other functions show all layers
// of a sequence, and its past evictions.
#ifndef FOLIO_SERVICES_CLI_HEAT_H_
#define FOLIO_SERVICES_CLI_HEAT_H_

#include <string>

#include "absl/types/span.h"
#include "folio/v1/admin.pb.h"
#include "services/cli/terminal.h"

namespace folio::cli {

// One character for each part of the scores, in their order, at most `width`. It shows the rank of
// the part's mean within the layer, from the lowest (which goes first) to the highest. NaN counts
// as the lowest.
std::string HeatStrip(absl::Span<const float> scores, int width, bool utf8);

// A strip for each of at most 8 layers, evenly chosen among those with scores, between a title and
// a scale. Begins with an empty line. Empty without scores.
std::string RenderHeat(const folio::v1::ExplainEvictionResponse& explained,
                       const Terminal& terminal);

// The newest 8 plans that were carried out, or all that are known. Begins with an empty line. Empty
// if there are none.
std::string RenderHistory(const folio::v1::GetSequenceResponse& detail, bool all,
                          const Terminal& terminal);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_HEAT_H_
