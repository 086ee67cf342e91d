// folioctl health tells whether a worker and a manager serve.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "services/cli/command.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

struct Finding {
  std::string process;
  std::string address;
  absl::Status status;  // OK if it serves
};

template <typename Connected>
absl::Status IsServing(const absl::StatusOr<Connected>& client, const Context& context) {
  if (!client.ok()) return client.status();
  const absl::StatusOr<bool> serving = (*client)->IsServing(context.Call());
  if (!serving.ok()) return serving.status();
  return *serving ? absl::OkStatus() : absl::UnavailableError("up, but takes no requests now");
}

// OK if all serve, otherwise the first failure's code with the reason of each failure.
absl::Status Summary(const std::vector<Finding>& findings) {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::vector<std::string> wrong;
  for (const Finding& finding : findings) {
    if (finding.status.ok()) continue;
    if (wrong.empty()) code = finding.status.code();
    wrong.push_back(absl::StrCat(finding.process, ": ", finding.status.message()));
  }
  return absl::Status(code, absl::StrJoin(wrong, "; "));
}

absl::Status CheckHealth(Context& context) {
  std::vector<Finding> findings;
  if (context.address.empty()) {
    findings.push_back(
        {"manager", context.ManagerAddress(), IsServing(context.ConnectManager(), context)});
    findings.push_back(
        {"worker", context.WorkerAddress(), IsServing(context.ConnectWorker(), context)});
  } else {
    // Health is the same service everywhere.
    findings.push_back({"process", context.address, IsServing(context.ConnectWorker(), context)});
  }
  Table table({{"process"}, {"address"}, {"health"}});
  auto json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    const bool ok = finding.status.ok();
    const std::string why(finding.status.message());
    table.Row(
        {finding.process, finding.address, ok ? "serving" : absl::StrCat("not serving: ", why)});
    json.push_back({{"process", finding.process},
                    {"address", finding.address},
                    {"serving", ok},
                    {"reason", why}});
  }
  absl::Status status;
  if (context.structured()) {
    status = context.Print(json);
  } else {
    context.terminal.out << table.Render(context.terminal);
  }
  status.Update(Summary(findings));
  return status;
}

}  // namespace

void AddHealth(CLI::App& root, Context& context) {
  CLI::App* command =
      AddCommand(root, "health", "Check that manager and worker serve, or the one at --address",
                 "  folioctl health\n  folioctl health --address unix:/run/folio/worker.sock");
  SetAction(command, CheckHealth, context);
}

}  // namespace folio::cli
