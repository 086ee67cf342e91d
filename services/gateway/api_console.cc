// The console: a page of files, and the state of the cache as JSON for it.
#include <array>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "services/gateway/api.h"
#include "services/gateway/console/manager_view.h"

namespace folio::gateway {
namespace {

constexpr absl::string_view kPage = "/console";
constexpr absl::string_view kState = "/console/api/";

// The page has no script and no style but its own files, so a text that it shows cannot become one.
std::string SecurityPolicy() {
  return absl::StrJoin({"default-src 'none'", "script-src 'self'", "style-src 'self'",
                        "img-src 'self' data:", "connect-src 'self'", "base-uri 'none'",
                        "form-action 'none'", "frame-ancestors 'none'"},
                       "; ");
}

absl::string_view TypeOf(absl::string_view path) {
  constexpr std::array<std::pair<absl::string_view, absl::string_view>, 6> kTypes = {
      {{".html", "text/html; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".txt", "text/plain; charset=utf-8"},
       {".svg", "image/svg+xml"},
       {".png", "image/png"}}};
  for (const auto& [end, type] : kTypes) {
    if (absl::EndsWith(path, end)) return type;
  }
  return "application/octet-stream";
}

}  // namespace

void Api::ConsolePage(Request request) {
  if (options_.manager == nullptr) {
    return request->Fail(NothingThere("The console is switched off: --manager is empty."));
  }
  if (options_.page.empty()) {
    return request->Fail(NothingThere(
        "This gateway was built without its console; build it with FOLIO_CONSOLE=ON."));
  }
  absl::string_view path = request->http().path;
  absl::ConsumePrefix(&path, kPage);
  // The page names its files beside itself.
  if (path.empty()) return request->Reply(308, "", "", {{"Location", "/console/"}});
  absl::ConsumePrefix(&path, "/");
  if (path.empty()) path = "index.html";
  for (const PageFile& file : options_.page) {
    if (file.path != path) continue;
    // The names of assets change with their content.
    const bool asset = absl::StartsWith(path, "assets/");
    return request->Reply(
        200, std::string(file.content), TypeOf(path),
        {{"Content-Security-Policy", SecurityPolicy()},
         {"Cache-Control", asset ? "public, max-age=31536000, immutable" : "no-cache"},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"}});
  }
  request->Fail(NothingThere("The console has no such file."));
}

void Api::ConsoleState(Request request) {
  if (options_.manager == nullptr) {
    return request->Fail(NothingThere("The console is switched off: --manager is empty."));
  }
  absl::string_view question = request->http().path;
  absl::ConsumePrefix(&question, kState);
  std::string query = request->http().query;
  auto shared = std::make_shared<Request>(std::move(request));
  options_.manager->Ask(
      std::string(question), std::move(query), [shared](const absl::StatusOr<std::string>& answer) {
        if (!answer.ok()) return (*shared)->Fail(answer.status());
        (*shared)->Reply(200, *answer, "application/json", {{"Cache-Control", "no-store"}});
      });
}

}  // namespace folio::gateway
