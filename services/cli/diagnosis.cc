#include "services/cli/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "services/base/steady_time.h"
#include "services/cli/format.h"
#include "services/runtime/version.h"

namespace folio::cli {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);

client::CallOptions Call(const Context& context) {
  client::CallOptions options = context.Call();
  options.deadline = std::min(options.deadline, SteadyNow() + kPatience);
  return options;
}

void Append(Checks more, Checks* checks) {
  std::move(more.begin(), more.end(), std::back_inserter(*checks));
}

template <typename T>
std::optional<T> Keep(absl::StatusOr<T> answer) {
  if (!answer.ok()) return std::nullopt;
  return *std::move(answer);
}

template <typename Client>
absl::Status Serving(Client& client, const Context& context) {
  const absl::StatusOr<bool> serving = client.IsServing(Call(context));
  if (!serving.ok()) return serving.status();
  return *serving ? absl::OkStatus() : absl::UnavailableError("it is up, but takes no requests");
}

void AskManager(const Context& context, Diagnosis* found) {
  const auto client = context.ConnectManager();
  absl::Status status = client.status();
  if (status.ok()) status = Serving(**client, context);
  if (client.ok()) {
    // A call that the manager serves to operators alone.
    const auto pools = (*client)->ListPools(Call(context));
    status.Update(pools.status());
    found->pools = Keep(pools);
    found->manager = Keep((*client)->GetManager(Call(context)));
    found->workers = Keep((*client)->ListWorkers(Call(context)));
    found->tenants = Keep((*client)->ListTenants(Call(context)));
    found->sequences = Keep((*client)->ListSequences(Call(context)));
  }
  found->checks.push_back(CheckConnection("manager", context.ManagerAddress(), status));
}

void AskWorker(const Context& context, Diagnosis* found) {
  const auto client = context.ConnectWorker();
  absl::Status status = client.status();
  if (status.ok()) status = Serving(**client, context);
  found->checks.push_back(CheckConnection("worker", context.WorkerAddress(), status));
  if (!client.ok()) return;
  const auto model = (*client)->GetModel(Call(context));
  found->model = Keep(model);
  if (model.ok()) {
    found->checks.push_back(
        {"model", Health::kOk, model->layout().model() + " on " + model->device()});
  } else {
    found->checks.push_back({"model", Health::kFail, std::string(model.status().message()),
                             "see the worker's log, which says why it has no model"});
  }
}

// Host memory of the pools, and whether some pool is in GPU memory.
std::pair<uint64_t, bool> PoolMemory(const folio::v1::ListPoolsResponse& pools) {
  uint64_t host = 0;
  bool gpu = !pools.devices().empty();
  for (const auto& pool : pools.pools()) {
    for (const auto& rank : pool.rank_memory()) {
      (rank.device() == "cpu" ? host += rank.bytes() : gpu = true);
    }
  }
  return {host, gpu};
}

}  // namespace

bool Diagnosis::failed() const {
  return absl::c_any_of(checks, [](const Check& one) { return one.health == Health::kFail; });
}

Diagnosis Diagnose(const Context& context, const Host& host) {
  Diagnosis found;
  AskManager(context, &found);
  AskWorker(context, &found);
  Checks& checks = found.checks;
  if (found.manager.has_value()) {
    checks.push_back(CheckVersions(BuildDescription(), found.manager->build()));
  }
  if (found.pools.has_value()) Append(CheckPools(*found.pools), &checks);
  if (found.workers.has_value()) Append(CheckWorkers(*found.workers), &checks);
  if (found.manager.has_value() && found.tenants.has_value()) {
    Append(CheckWaiting(*found.manager, *found.tenants), &checks);
  }
  const auto [bytes, gpu] = PoolMemory(found.pools.value_or(folio::v1::ListPoolsResponse()));
  Append(CheckMachine(host, ClockIsSynchronized(), gpu), &checks);
  if (found.manager.has_value()) {
    Append(CheckProcess(host, found.manager->pid(), bytes), &checks);
  }
  if (found.workers.has_value()) {
    for (const auto& worker : found.workers->workers()) {
      for (const auto& process : worker.processes()) {
        Append(CheckWorkerProcess(host, static_cast<uint32_t>(process.pid()), gpu), &checks);
      }
    }
  }
  return found;
}

nlohmann::ordered_json ToJson(const Checks& checks) {
  auto list = nlohmann::ordered_json::array();
  int failed = 0;
  int warned = 0;
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"health", HealthName(check.health)},
                    {"found", check.found},
                    {"advice", check.advice}});
    failed += check.health == Health::kFail ? 1 : 0;
    warned += check.health == Health::kWarn ? 1 : 0;
  }
  return {{"checks", std::move(list)}, {"failed", failed}, {"warned", warned}};
}

}  // namespace folio::cli
