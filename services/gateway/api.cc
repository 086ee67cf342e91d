#include "services/gateway/api.h"

#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "services/gateway/openai/call.h"
#include "services/gateway/openai/ids.h"
#include "services/gateway/openai/json_text.h"
#include "services/text/utf8.h"

namespace folio::gateway {
namespace {

constexpr size_t kMostRequestId = 128;

// Endpoints of OpenAI's and vLLM's that need a model of another kind.
constexpr std::array<absl::string_view, 11> kRefused = {
    "/v1/embeddings",  "/v1/responses",  "/v1/audio",  "/v1/images", "/v1/moderations", "/v1/files",
    "/v1/fine_tuning", "/v1/assistants", "/v1/rerank", "/v1/score",  "/v1/batches"};

// Printable characters that neither a log nor a header takes for something else.
bool IsRequestId(absl::string_view id) {
  if (id.empty() || id.size() > kMostRequestId) return false;
  for (const char c : id) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("-_.:/+=", absl::string_view(&c, 1))) {
      return false;
    }
  }
  return true;
}

ApiError NoKey(absl::string_view message) {
  ApiError error = HttpError(401, message);
  error.code = "invalid_api_key";
  return error;
}

}  // namespace

const std::vector<Api::Endpoint>& Api::Endpoints() {
  static const std::vector<Endpoint> endpoints = {
      {"/v1/chat/completions", "POST", Access::kKey, &Api::Chat},
      {"/v1/completions", "POST", Access::kKey, &Api::Completions},
      {"/v1/models", "GET", Access::kKey, &Api::Models, /*below=*/true},
      {"/tokenize", "POST", Access::kKey, &Api::Tokenize},
      {"/detokenize", "POST", Access::kKey, &Api::Detokenize},
      {"/health", "GET", Access::kAnyone, &Api::Health},
      {"/metrics", "GET", Access::kAnyone, &Api::Metrics},
      {"/version", "GET", Access::kAnyone, &Api::VersionOf},
      {"/console/api", "GET", Access::kOperator, &Api::ConsoleState, /*below=*/true},
      {"/console", "GET", Access::kAnyone, &Api::ConsolePage, /*below=*/true},
  };
  return endpoints;
}

const Api::Endpoint* Api::EndpointOf(absl::string_view path) {
  for (const Endpoint& endpoint : Endpoints()) {
    absl::string_view rest = path;
    if (!absl::ConsumePrefix(&rest, endpoint.path)) continue;
    if (rest.empty() || (endpoint.below && rest.front() == '/')) return &endpoint;
  }
  return nullptr;
}

Api::Api(WorkerSet* workers, GatewayMetrics* metrics, ApiOptions options)
    : workers_(workers), metrics_(metrics), options_(std::move(options)) {}

Api::~Api() = default;

HttpFields Api::BrowserFields(const HttpRequest& http) const {
  const absl::string_view origin = http.Field("Origin");
  if (origin.empty()) return {};
  for (const std::string& allowed : options_.cors_origins) {
    if (allowed != "*" && allowed != origin) continue;
    HttpFields fields = {
        {"Access-Control-Allow-Origin", allowed == "*" ? "*" : std::string(origin)},
        {"Access-Control-Expose-Headers", "x-request-id, Retry-After"}};
    if (allowed != "*") fields.emplace_back("Vary", "Origin");
    return fields;
  }
  return {};
}

Api::Request Api::Admit(const std::shared_ptr<Exchange>& exchange) {
  const absl::string_view given = exchange->request().Field("x-request-id");
  const std::string id = IsRequestId(given) ? std::string(given) : NewId("");
  HttpFields fields = BrowserFields(exchange->request());
  fields.emplace_back("x-request-id", id);
  auto request = std::make_unique<ApiRequest>(
      exchange, std::move(fields), options_.tracer, [this](const RequestRecord& record) {
        metrics_->OnEnd(record);
        const bool quiet = record.status == 200 && IsProbe(record);
        if (options_.access_log && !quiet) {
          WriteAccessLine(record);
        }
      });
  request->record.request_id = id;
  request->record.endpoint = "other";
  return request;
}

bool Api::CheckKey(ApiRequest& request, Access access) {
  if (options_.keys == nullptr || access == Access::kAnyone) return true;
  absl::string_view key = request.http().Field("Authorization");
  if (key.empty()) {
    request.Fail(NoKey("No API key was given. Send it in the header 'Authorization: Bearer KEY'."),
                 {{"WWW-Authenticate", "Bearer"}});
    return false;
  }
  std::optional<KeyHolder> holder;
  if (absl::StartsWithIgnoreCase(key, "bearer ")) {
    holder = options_.keys->HolderOf(absl::StripAsciiWhitespace(key.substr(7)));
  }
  if (!holder.has_value()) {
    request.Fail(NoKey("The API key is wrong."), {{"WWW-Authenticate", "Bearer"}});
    return false;
  }
  if (access == Access::kOperator && !holder->is_operator) {
    request.Fail(
        absl::PermissionDeniedError("This key may not see the cache. Its line of --api_keys needs "
                                    "the word operator at its end."));
    return false;
  }
  request.record.tenant = std::move(holder->tenant);
  return true;
}

void Api::Preflight(Request request) {
  HttpFields fields;
  if (!BrowserFields(request->http()).empty()) {
    const absl::string_view asked = request->http().Field("Access-Control-Request-Headers");
    const bool plain = asked.size() <= 1024;
    fields = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
              {"Access-Control-Allow-Headers",
               plain && !asked.empty() ? std::string(asked) : "Authorization, Content-Type"},
              {"Access-Control-Max-Age", "600"}};
  }
  request->Reply(204, "", "", std::move(fields));
}

void Api::Handle(const std::shared_ptr<Exchange>& exchange) {
  Request request = Admit(exchange);
  const HttpRequest& http = exchange->request();
  if (const Endpoint* endpoint = EndpointOf(http.path); endpoint != nullptr) {
    request->record.endpoint = endpoint->path;
    if (http.method == "OPTIONS") return Preflight(std::move(request));
    const bool head = http.method == "HEAD" && absl::string_view(endpoint->method) == "GET";
    if (http.method != endpoint->method && !head) {
      return request->Fail(HttpError(405, absl::StrCat(LossyUtf8(http.path), " answers ",
                                                       endpoint->method, " only.")),
                           {{"Allow", absl::StrCat(endpoint->method, ", OPTIONS")}});
    }
    if (CheckKey(*request, endpoint->access)) (this->*endpoint->handle)(std::move(request));
    return;
  }
  for (const absl::string_view refused : kRefused) {
    if (!absl::StartsWith(http.path, refused)) continue;
    ApiError error = HttpError(404, absl::StrCat(refused,
                                                 " is not supported: Folio serves models "
                                                 "that generate text, by /v1/chat/completions and "
                                                 "/v1/completions."));
    error.code = "unsupported_endpoint";
    return request->Fail(error);
  }
  request->Fail(NothingThere(absl::StrCat("There is nothing at ", LossyUtf8(http.path), ".")));
}

void Api::CancelAll(const absl::Status& why) {
  std::vector<std::shared_ptr<Generation>> all;
  {
    const absl::MutexLock lock(&mutex_);
    for (const auto& [_, weak] : generations_) {
      if (auto one = weak.lock(); one != nullptr) all.push_back(std::move(one));
    }
  }
  for (const auto& one : all) one->Cancel(why);
}

void Api::Forget(Generation* generation) {
  const absl::MutexLock lock(&mutex_);
  generations_.erase(generation);
}

}  // namespace folio::gateway
