// folio-worker: runs a model on pages that a folio-manager owns.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "services/access/access_flag.h"
#include "services/access/access_metrics.h"
#include "services/access/gate.h"
#include "services/base/steady_time.h"
#include "services/grpc/grpc_log.h"
#include "services/grpc/grpc_server.h"
#include "services/grpc/health_server.h"
#include "services/metrics/connection_metrics.h"
#include "services/metrics/metrics_server.h"
#include "services/runtime/connection_limit.h"
#include "services/runtime/descriptor_limit.h"
#include "services/runtime/flags.h"
#include "services/runtime/lock_checks.h"
#include "services/runtime/logging.h"
#include "services/runtime/service_manager.h"
#include "services/runtime/signals.h"
#include "services/runtime/version.h"
#include "services/tracing/trace_metrics.h"
#include "services/tracing/tracer.h"
#include "services/worker/access_log.h"
#include "services/worker/device/gpu.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/device/rank_group.h"
#include "services/worker/flags.h"
#include "services/worker/held_matrices.h"
#include "services/worker/link/manager_channel.h"
#include "services/worker/pool/gpu_choice.h"
#include "services/worker/ranks/rank_follower.h"
#include "services/worker/ranks/rank_leader.h"
#include "services/worker/rpc/inference_service.h"
#include "services/worker/serving.h"
#include "services/worker/serving_metrics.h"
#include "services/worker/step_watchdog.h"

namespace {

using folio::metrics::MetricsServer;
using folio::worker::Gpu;
using folio::worker::LoadedModel;
using folio::worker::Serving;
using folio::worker::WorkerFlags;

constexpr absl::string_view kUsage =
    "folio-worker --model=PATH [flags]\n\n"
    "Runs a model of the Llama family on pages that the manager of this node owns, and serves\n"
    "the Inference API. SIGTERM or SIGINT drains, a second one ends at once.\n\n"
    "With --tp=N the model is cut over N processes. The first one leads: it serves, starts the\n"
    "others, and ends when one of them does. If something else starts the processes, give each\n"
    "--tp, its --rank and the same --group.";

int Fail(const absl::Status& why) {
  folio::log::Error("cannot start", {{"reason", why}});
  return 1;
}

bool Signalled(folio::TerminationSignals& signals) {
  return signals.Wait(absl::ZeroDuration()).has_value();
}

// For a process that holds nothing yet that needs an orderly end.
[[noreturn]] void EndAtOnce() {
  folio::log::Flush();
  std::_Exit(0);
}

// Returns null if the CPU computes. The other ranks must have been started before, because a CUDA
// driver does not survive a fork.
absl::StatusOr<std::unique_ptr<Gpu>> FindGpu(const WorkerFlags& flags,
                                             folio::TerminationSignals& signals) {
  if (!flags.device.cuda) return nullptr;
  const auto gpus = folio::worker::BuiltInGpus();
  auto gpu =
      folio::worker::OpenGpu(*gpus, flags.device, flags.group.self,
                             folio::worker::MakeManagerChannel(flags.serving.manager),
                             flags.serving.attach_timeout, [&] { return Signalled(signals); });
  if (!gpu.ok()) return gpu;
  const folio::worker::DeviceInfo& info = (*gpu)->info();
  folio::log::Info("GPU chosen", {{"device", info.ToString()},
                                  {"uuid", info.uuid},
                                  {"free_bytes", info.free_bytes},
                                  {"total_bytes", info.total_bytes}});
  return gpu;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const WorkerFlags& flags,
                                                  folio::TerminationSignals& signals, Gpu* gpu) {
  folio::log::Info("loading the model", {{"path", flags.model.path}});
  const folio::SteadyTime start = folio::SteadyNow();
  const auto progress = [&, shown = 0](int percent) mutable {
    if (Signalled(signals)) EndAtOnce();
    if (percent < shown + 10) return;
    shown = percent;
    folio::log::Info("loading the model", {{"percent", percent}});
  };
  auto model = LoadedModel::Load(flags.model, flags.compute, progress, flags.group.self, gpu);
  if (!model.ok()) return model;
  const folio::v1::GetModelResponse& said = (*model)->description();
  folio::log::Info("model loaded", {{"model", said.layout().model()},
                                    {"parameters", said.parameters()},
                                    {"weight_bytes", said.weight_bytes()},
                                    {"context", said.context_length()},
                                    {"device", said.device()},
                                    {"compute", said.compute()},
                                    {"kernels", said.kernels()},
                                    {"threads", said.threads()},
                                    {"took", folio::SteadyNow() - start}});
  folio::worker::LogHeldMatrices(**model);
  return model;
}

// Serves until a signal and the drain after it, or until serving fails.
absl::Status ServeUntilEnd(Serving& serving, folio::GrpcServer& server, folio::HealthServer& health,
                           folio::TerminationSignals& signals, absl::Duration drain_timeout) {
  bool healthy = true, draining = false;
  for (;;) {
    if (std::optional<absl::Status> end = serving.Wait(absl::ZeroDuration())) return *end;
    if (const bool now = serving.serving() && !draining; now != healthy) {
      server.SetServing(healthy = now);
      health.SetServing(now);
      folio::log::Info(now ? "serving" : "not serving");
      serving.watchdog().LogStandstill();
    }
    if (!signals.Wait(absl::Milliseconds(100))) continue;
    serving.Drain(draining ? folio::SteadyTime::InfinitePast()
                           : folio::SteadyNow() + drain_timeout);
    folio::log::Info(draining ? "ending at once" : "draining", {{"timeout", drain_timeout}});
    folio::NotifyServiceManager("STOPPING=1");
    draining = true;
  }
}

// Starts before the worker has a manager, so that it can be seen to wait for one. Null without
// --metrics_listen.
absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetrics(
    const WorkerFlags& flags, const LoadedModel& model, const Serving& serving,
    const folio::worker::InferenceService& service, folio::ConnectionLimit* connections,
    const folio::tracing::Tracer* tracer) {
  if (flags.metrics_listen.empty()) return nullptr;
  return MetricsServer::Start(
      flags.metrics_listen, "folio-worker",
      {service.metrics().registry(),
       std::make_shared<folio::worker::ServingMetrics>(model.layout().model(), &serving),
       std::make_shared<folio::metrics::ConnectionMetrics>(connections),
       std::make_shared<folio::tracing::TraceMetrics>(tracer),
       std::make_shared<folio::access::AccessMetrics>(service.gate())});
}

int Serve(const WorkerFlags& flags, const LoadedModel& model, const folio::worker::RankGroup* group,
          std::shared_ptr<folio::CertificateFiles> certificate, folio::access::Gate& gate,
          folio::TerminationSignals& signals) {
  folio::worker::RequestQueue queue(flags.max_queue);
  Serving serving(flags.serving, &model, &queue, group);
  const folio::worker::ModelLimits limits = {.tokenizer = &model.tokenizer(),
                                             .vocab = model.config().vocab,
                                             .context = model.config().context,
                                             .special_tokens_in_chat = flags.special_tokens_in_chat,
                                             .fingerprint = model.layout().fingerprint()};
  const auto access_log = flags.access_log ? folio::worker::WriteAccessLine : nullptr;
  const auto tracer = folio::tracing::Tracer::Start(flags.traces, "folio-worker");
  folio::worker::InferenceService service(limits, model.description(), &queue,
                                          flags.slow_client_timeout, access_log, tracer.get(),
                                          &gate);
  folio::ConnectionLimit connections(flags.max_connections);
  const auto metrics = StartMetrics(flags, model, serving, service, &connections, tracer.get());
  if (!metrics.ok()) return Fail(metrics.status());
  const auto signalled = [&] { return Signalled(signals); };
  if (absl::Status status = serving.Start(signalled); !status.ok()) {
    return absl::IsCancelled(status) ? 0 : Fail(status);
  }
  // Listen only now, so that every client that can connect is served.
  while (!serving.serving()) {
    if (signalled()) return 0;
    if (std::optional<absl::Status> end = serving.Wait(absl::Milliseconds(1))) return Fail(*end);
  }
  folio::GrpcServerOptions server_options;
  server_options.listen = flags.listen;
  server_options.certificate = std::move(certificate);
  server_options.insecure_tcp = flags.insecure_tcp;
  server_options.knows_callers = gate.knows_callers();
  server_options.services = {&service};
  server_options.max_receive_bytes = static_cast<int>(
      std::min<size_t>(folio::worker::MaxRequestBytes(limits), std::numeric_limits<int>::max()));
  server_options.health_names = {folio::v1::Inference::service_full_name()};
  server_options.connections = &connections;
  auto server = folio::GrpcServer::Start(server_options);
  if (!server.ok()) return Fail(server.status());
  for (const folio::ListenAddress& address : (*server)->addresses()) {
    folio::log::Info("listening", {{"address", address.ToString()}});
  }
  const auto health = folio::HealthServer::Start(server_options, flags.health_listen);
  if (!health.ok()) return Fail(health.status());
  for (const folio::ListenAddress& address : (*health)->addresses()) {
    folio::log::Info("listening for health checks", {{"address", address.ToString()}});
  }
  folio::NotifyServiceManager("READY=1");
  const absl::Status end = ServeUntilEnd(serving, **server, **health, signals, flags.drain_timeout);
  // Give clients a moment to receive their last responses.
  (*server)->Shutdown(absl::Seconds(1));
  if (tracer != nullptr) tracer->Shutdown();
  if (!end.ok()) folio::log::Error("unrecoverable error; restart the worker", {{"reason", end}});
  folio::log::Info("folio-worker ended");
  return end.ok() ? 0 : 1;
}

// Runs a rank that does not lead. It neither serves nor drains, and lives as long as its leader.
int RunAsRank(const WorkerFlags& flags, folio::TerminationSignals& signals) {
  if (auto s = folio::worker::EndWithLeader(flags.group); !s.ok()) return Fail(s);
  const auto gpu = FindGpu(flags, signals);
  if (absl::IsCancelled(gpu.status())) return 0;
  if (!gpu.ok()) return Fail(gpu.status());
  auto model = Load(flags, signals, gpu->get());
  if (!model.ok()) return Fail(model.status());
  // A signal ends this rank while it waits for its leader. Later the leader ends it.
  std::atomic<bool> joined = false;
  std::thread waiting([&] {
    while (!joined) {
      if (signals.Wait(absl::Milliseconds(100)) && !joined) EndAtOnce();
    }
  });
  // The leader's death ends this rank, unless a device hangs here. The gauge hears of no steps.
  folio::worker::StepGauge gauge;
  folio::worker::StepWatchdog watchdog({flags.serving.step_timeout.most}, &gauge);
  watchdog.Start();
  const absl::Status end = folio::worker::RunFollower(
      flags.group, **model, flags.serving.max_rows(), [&joined] { joined = true; },
      [&gauge](bool busy) { busy ? gauge.BeginLoop() : gauge.EndLoop(); });
  joined = true;
  waiting.join();
  if (!end.ok()) folio::log::Error("unrecoverable error of this rank", {{"reason", end}});
  folio::log::Info("folio-worker ended", {{"rank", flags.group.self.rank.value()}});
  return end.ok() ? 0 : 1;
}

int RunAsLeader(const WorkerFlags& flags, folio::TerminationSignals& signals) {
  if (auto status = folio::MakeSocketDirectories(flags.listen); !status.ok()) return Fail(status);
  std::shared_ptr<folio::CertificateFiles> certificate;
  if (!flags.tls.empty()) {
    auto opened = folio::CertificateFiles::Open(flags.tls);
    if (!opened.ok()) return Fail(opened.status());
    certificate = *std::move(opened);
  }
  auto access = folio::access::OpenAccess();
  if (!access.ok()) return Fail(access.status());
  folio::access::Gate gate(*std::move(access));
  absl::StatusOr<std::unique_ptr<Gpu>> gpu = nullptr;
  std::unique_ptr<folio::worker::RankLeader> ranks;  // destroyed after the model
  if (flags.group.self.ranks > 1) {
    auto leader = folio::worker::RankLeader::Start(flags.group, flags.compute.threads);
    if (!leader.ok()) return Fail(leader.status());
    ranks = *std::move(leader);
  }
  gpu = FindGpu(flags, signals);
  if (absl::IsCancelled(gpu.status())) return 0;
  if (!gpu.ok()) return Fail(gpu.status());
  auto model = Load(flags, signals, gpu->get());
  if (!model.ok()) return Fail(model.status());
  if (ranks != nullptr) {
    absl::Status status =
        ranks->InitGroup(**model, flags.serving.max_rows(), [&] { return Signalled(signals); });
    if (absl::IsCancelled(status)) return 0;
    if (!status.ok()) return Fail(status);
  }
  return Serve(flags, **model, ranks == nullptr ? nullptr : ranks->group(), std::move(certificate),
               gate, signals);
}

int Run() {
  folio::SkipLockCycleChecks();
  const int descriptors = folio::RaiseDescriptorLimit();
  auto flags = folio::worker::ReadFlags();
  if (!flags.ok()) folio::ExitBadFlag("folio-worker", flags.status());
  folio::TerminationSignals signals;
  folio::log::WriteInBackground();
  folio::LogForGrpc();
  folio::log::Info("folio-worker starts", {{"version", folio::BuildDescription()},
                                           {"rank", flags->group.self.rank.value()},
                                           {"ranks", flags->group.self.ranks},
                                           {"descriptors", descriptors},
                                           {"max_connections", flags->max_connections}});
  return flags->group.self.rank == folio::Rank(0) ? RunAsLeader(*flags, signals)
                                                  : RunAsRank(*flags, signals);
}

}  // namespace

int main(int argc, char** argv) {
  folio::ParseFlagsOrExit(argc, argv, kUsage);
  return Run();
}
