// Diagnosis is everything that `folioctl doctor` and `folioctl support-bundle` find out: the
// answers of the processes and the checks of them and of this machine.
#ifndef FOLIO_SERVICES_CLI_DIAGNOSIS_H_
#define FOLIO_SERVICES_CLI_DIAGNOSIS_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "absl/status/status.h"
#include "folio/v1/admin.pb.h"
#include "folio/v1/inference.pb.h"
#include "services/cli/checks.h"
#include "services/cli/command.h"
#include "services/cli/host_checks.h"

namespace folio::cli {

// Answers that did not come are missing.
struct Diagnosis {
  Checks checks;
  std::optional<folio::v1::GetManagerResponse> manager;
  std::optional<folio::v1::ListPoolsResponse> pools;
  std::optional<folio::v1::ListWorkersResponse> workers;
  std::optional<folio::v1::ListTenantsResponse> tenants;
  std::optional<folio::v1::ListSequencesResponse> sequences;
  std::optional<folio::v1::GetModelResponse> model;

  bool failed() const;
};

// Asks the manager and the worker that the context names, each call for at most 5 s.
Diagnosis Diagnose(const Context& context, const Host& host);

// An object with the list `checks`, and the numbers of them that `failed` and `warned`.
nlohmann::ordered_json ToJson(const Checks& checks);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_DIAGNOSIS_H_
