// Api is the endpoints of the gateway: what each path means, who may ask, and what is answered.
#ifndef FOLIO_SERVICES_GATEWAY_API_H_
#define FOLIO_SERVICES_GATEWAY_API_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "services/gateway/api_keys.h"
#include "services/gateway/api_request.h"
#include "services/gateway/console/manager_view.h"
#include "services/gateway/console/page_files.h"
#include "services/gateway/gateway_metrics.h"
#include "services/gateway/generation.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/workers/worker_set.h"

namespace folio::gateway {

// Which requests go to one worker, if its load allows it.
enum class Affinity : uint8_t {
  kNone,
  kSession,  // those with one `prompt_cache_key`, or with one header x-session-id
  kPrefix,   // these, and otherwise those whose prompts begin alike
};

struct ApiOptions {
  ApiKeys* keys = nullptr;                // borrowed; null if anyone may ask
  std::vector<std::string> cors_origins;  // that browsers may ask from; "*" is any
  Affinity affinity = Affinity::kSession;
  absl::Duration resume = absl::Seconds(30);  // see CallOptions::resume
  bool replay = true;                         // see CallOptions::replay
  bool access_log = true;
  absl::Span<const PageFile> page;    // the console's; empty if it was not built
  ManagerView* manager = nullptr;     // borrowed; null for no console
  tracing::Tracer* tracer = nullptr;  // borrowed; null if nothing is traced
  std::function<std::string()> metrics_text;
};

// Thread-safe.
class Api {
 public:
  // The set and the metrics are borrowed.
  Api(WorkerSet* workers, GatewayMetrics* metrics, ApiOptions options);
  // All generations must have ended.
  ~Api();
  Api(const Api&) = delete;
  Api& operator=(const Api&) = delete;

  // The handler of the HTTP server.
  void Handle(const std::shared_ptr<Exchange>& exchange);

  // From now on /health says 503, and requests for text are refused.
  void Drain() { draining_ = true; }
  // Ends all generations with this status.
  void CancelAll(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Request = std::unique_ptr<ApiRequest>;
  enum class Access : uint8_t { kAnyone, kKey, kOperator };  // where there are keys at all
  struct Endpoint {
    const char* path;
    const char* method;
    Access access;
    void (Api::*handle)(Request);
    bool below = false;  // it has the paths below its own too
  };
  static const std::vector<Endpoint>& Endpoints();
  static const Endpoint* EndpointOf(absl::string_view path);

  Request Admit(const std::shared_ptr<Exchange>& exchange);
  // False after it has answered.
  bool CheckKey(ApiRequest& request, Access access);
  HttpFields BrowserFields(const HttpRequest& http) const;
  void Preflight(Request request);

  void Chat(Request request) { Generate(std::move(request), /*chat=*/true); }
  void Completions(Request request) { Generate(std::move(request), /*chat=*/false); }
  void Generate(Request request, bool chat);
  void Models(Request request);
  void Tokenize(Request request);
  void Detokenize(Request request);
  void Health(Request request);
  void Metrics(Request request);
  void VersionOf(Request request);
  void ConsolePage(Request request);
  void ConsoleState(Request request);
  std::string KeyOf(const Call& call, const HttpRequest& http) const;
  void Forget(Generation* generation) ABSL_LOCKS_EXCLUDED(mutex_);

  WorkerSet* const workers_;
  GatewayMetrics* const metrics_;
  const ApiOptions options_;
  std::atomic<bool> draining_ = false;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<Generation*, std::weak_ptr<Generation>> generations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_API_H_
