// WorkerFlags is folio-worker's command line.
#ifndef FOLIO_SERVICES_WORKER_FLAGS_H_
#define FOLIO_SERVICES_WORKER_FLAGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/runtime/listen_address.h"
#include "services/tls/certificate.h"
#include "services/tracing/tracer.h"
#include "services/worker/device/loaded_model.h"
#include "services/worker/pool/gpu_choice.h"
#include "services/worker/ranks/rendezvous.h"
#include "services/worker/serving.h"

namespace folio::worker {

struct WorkerFlags {
  ModelOptions model;
  ComputeOptions compute;
  DeviceChoice device;
  GroupOptions group;
  ServingOptions serving;
  bool special_tokens_in_chat = false;
  std::vector<ListenAddress> listen;
  TlsFiles tls;               // of `listen`
  bool insecure_tcp = false;  // as in GrpcServerOptions
  std::vector<ListenAddress> health_listen;
  std::vector<ListenAddress> metrics_listen;
  int max_connections = 0;
  absl::Duration drain_timeout;
  absl::Duration slow_client_timeout;
  bool access_log = true;
  uint32_t max_queue = 0;
  tracing::TracerOptions traces;
};

// Checks the parsed flags and fills in defaults. INVALID_ARGUMENT names the flag and the fix.
absl::StatusOr<WorkerFlags> ReadFlags();

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_FLAGS_H_
