// Goals are the bounds of time that make an answer a good one. Goodput counts good answers.
#ifndef FOLIO_SERVICES_CLI_LOAD_GOALS_H_
#define FOLIO_SERVICES_CLI_LOAD_GOALS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/cli/load/outcome.h"

namespace folio::load {

// A plain value. Without bounds every answer is good.
class Goals {
 public:
  // "ttft:500ms,itl:50ms,tpot:60ms,e2e:10s", or some of these. INVALID_ARGUMENT names the item that
  // is not understood.
  static absl::StatusOr<Goals> Parse(absl::string_view text);

  // Whether the request was answered within all bounds. That of itl is for the mean gap of the
  // answer. An answer that has no such time, because it is too short, keeps the bound.
  bool Met(const Outcome& outcome) const;

  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::optional<double> first_, gap_, per_token_, total_;  // seconds
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_GOALS_H_
