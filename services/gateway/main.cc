// folio-gateway: OpenAI's HTTP API in front of folio-worker processes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/base/steady_time.h"
#include "services/gateway/api.h"
#include "services/gateway/api_keys.h"
#include "services/gateway/console/manager_view.h"
#include "services/gateway/console/page_files.h"
#include "services/gateway/flags.h"
#include "services/gateway/gateway_metrics.h"
#include "services/gateway/http/server.h"
#include "services/gateway/workers/worker_set.h"
#include "services/grpc/grpc_log.h"
#include "services/metrics/metrics_server.h"
#include "services/metrics/process_metrics.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "services/runtime/listen_address.h"
#include "services/runtime/listening_socket.h"
#include "services/runtime/lock_checks.h"
#include "services/runtime/logging.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/signals.h"
#include "services/runtime/version.h"
#include "services/tracing/trace_metrics.h"
#include "services/tracing/tracer.h"

namespace {

using folio::SteadyNow;
using folio::SteadyTime;
using folio::gateway::Api;
using folio::gateway::GatewayFlags;
using folio::gateway::HttpServer;

constexpr absl::string_view kUsage =
    "folio-gateway [flags]\n\n"
    "Serves the HTTP API of OpenAI for the workers of one manager. SIGTERM or SIGINT drains, a\n"
    "second one ends at once.";

using Sources = std::vector<std::shared_ptr<prometheus::Collectable>>;

int Fail(const absl::Status& why) {
  folio::log::Error("cannot start", {{"reason", why}});
  return 1;
}

// Waits for a signal, and then until the last request has its answer.
void ServeUntilEnd(folio::TerminationSignals& signals, HttpServer& server, Api& api,
                   absl::Duration drain_timeout) {
  (void)signals.Wait();
  folio::log::Info("draining", {{"timeout", drain_timeout}});
  folio::NotifyServiceManager("STOPPING=1");
  api.Drain();
  server.Drain();
  const SteadyTime deadline = SteadyNow() + drain_timeout;
  bool in_time = true;
  while (server.counts().answering > 0 && in_time) {
    in_time = SteadyNow() < deadline && !signals.Wait(absl::Milliseconds(20)).has_value();
  }
  if (in_time) return;
  folio::log::Info("ending at once", {{"requests", server.counts().answering.load()}});
  api.CancelAll(absl::UnavailableError("This gateway has shut down."));
  // The clients hear of it, unless they do not read.
  const SteadyTime end = SteadyNow() + absl::Seconds(1);
  while (server.counts().answering > 0 && SteadyNow() < end) {
    (void)signals.Wait(absl::Milliseconds(20));
  }
}

absl::Status Complete(GatewayFlags* flags, std::unique_ptr<folio::gateway::ApiKeys>* keys) {
  if (!flags->api_keys.empty()) {
    auto loaded = folio::gateway::ApiKeys::Load(flags->api_keys);
    if (!loaded.ok()) return loaded.status();
    *keys = *std::move(loaded);
    flags->api.keys = keys->get();
  }
  if (flags->tls.empty()) return absl::OkStatus();
  auto tls = folio::gateway::ServerTls::Open(flags->tls);
  if (!tls.ok()) return tls.status();
  flags->http.tls = *std::move(tls);
  return absl::OkStatus();
}

// Prompts and answers go to these addresses.
void WarnOfPlainConnections(const GatewayFlags& flags) {
  if (flags.workers.tls.has_value()) return;
  for (const auto* addresses : {&flags.workers.workers, &flags.workers.standby}) {
    for (const std::string& address : *addresses) {
      const auto parsed = folio::ParseListenAddress(address);
      if (!parsed.ok() || !folio::IsOpenToNetwork(*parsed)) continue;
      folio::log::Warning("requests to this worker and its answers are not encrypted on their way",
                          {{"worker", address},
                           {"fix",
                            "give the worker a certificate and the gateway --upstream_tls_ca, "
                            "unless you trust the network"}});
    }
  }
}

int Serve(GatewayFlags flags, folio::TerminationSignals& signals) {
  WarnOfPlainConnections(flags);
  std::unique_ptr<folio::gateway::ApiKeys> keys;
  if (absl::Status status = Complete(&flags, &keys); !status.ok()) return Fail(status);
  auto workers = folio::gateway::WorkerSet::Connect(flags.workers);
  if (!workers.ok()) return Fail(workers.status());
  std::unique_ptr<folio::gateway::ManagerView> manager;
  if (!flags.manager.empty()) {
    auto view = folio::gateway::ManagerView::Connect(
        flags.manager, {.tls = flags.workers.tls, .token_file = flags.workers.token_file});
    if (!view.ok()) return Fail(view.status());
    manager = *std::move(view);
  }
  flags.api.manager = manager.get();
  flags.api.page = folio::gateway::PageFiles();
  folio::gateway::GatewayMetrics metrics;
  const auto tracer = folio::tracing::Tracer::Start(flags.traces, "folio-gateway");
  flags.api.tracer = tracer.get();
  Sources sources = {metrics.registry(),
                     std::make_shared<folio::tracing::TraceMetrics>(tracer.get())};
  Sources with_process;  // filled in before the server starts
  flags.api.metrics_text = [&] { return folio::gateway::MetricsText(with_process); };
  Api api(workers->get(), &metrics, flags.api);
  flags.http.connection.handler = [&api](const auto& exchange) { api.Handle(exchange); };
  flags.http.connection.error_body = [](int status, const std::string& message) {
    return folio::gateway::ErrorBody(folio::gateway::HttpError(status, message));
  };
  if (auto status = folio::MakeSocketDirectories(flags.http.listen); !status.ok()) {
    return Fail(status);
  }
  auto server = HttpServer::Make(flags.http);
  if (!server.ok()) return Fail(server.status());
  sources.push_back(
      std::make_shared<folio::gateway::GatewayGauges>(&(*server)->counts(), workers->get()));
  with_process = sources;
  with_process.push_back(std::make_shared<folio::metrics::ProcessMetrics>("folio-gateway"));
  auto metrics_server =
      folio::metrics::MetricsServer::Start(flags.metrics_listen, "folio-gateway", sources);
  if (!metrics_server.ok()) return Fail(metrics_server.status());
  (*server)->Start();
  for (const folio::ListeningSocket& listening : (*server)->listening()) {
    folio::log::Info("listening", {{"address", listening.address().ToString()}});
    if (!listening.is_open_to_network() || keys != nullptr || manager == nullptr) continue;
    folio::log::Warning("anyone who reaches this address sees the sequences of all tenants",
                        {{"address", listening.address().ToString()},
                         {"fix", "give --api_keys, or an empty --manager"}});
  }
  folio::NotifyServiceManager("READY=1");
  ServeUntilEnd(signals, **server, api, flags.drain_timeout);
  // Exchanges may not be answered after the server's end.
  api.CancelAll(absl::UnavailableError("This gateway has shut down."));
  (*workers)->AwaitAll();
  if (manager != nullptr) manager->End();
  server->reset();
  if (tracer != nullptr) tracer->Shutdown();
  folio::log::Info("folio-gateway ended");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  folio::ParseFlagsOrExit(argc, argv, kUsage);
  folio::SkipLockCycleChecks();
  const int descriptors = folio::RaiseDescriptorLimit();
  auto flags = folio::gateway::ReadFlags();
  if (!flags.ok()) folio::ExitBadFlag("folio-gateway", flags.status());
  folio::TerminationSignals signals;
  folio::log::WriteInBackground();
  folio::LogForGrpc();
  folio::log::Info("folio-gateway starts", {{"version", folio::BuildDescription()},
                                            {"descriptors", descriptors},
                                            {"threads", flags->http.threads},
                                            {"max_connections", flags->http.max_connections}});
  return Serve(*std::move(flags), signals);
}
