#include "services/metrics/metrics_server.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/base/steady_wait.h"
#include "services/base/unique_fd.h"
#include "services/metrics/process_metrics.h"
#include "services/runtime/logging.h"

namespace folio::metrics {
namespace {

// The form that civetweb expects. A plus sign means IPv4 and IPv6.
std::string CivetAddress(const ListenAddress& address) {
  return address.host == "[::]" ? absl::StrCat("+", address.port) : address.ToString();
}

// Connects and closes.
void Touch(uint16_t port) {
  const UniqueFd connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in self = {};
  self.sin_family = AF_INET;
  self.sin_port = htons(port);
  self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)!connect(connection.get(), reinterpret_cast<sockaddr*>(&self), sizeof(self));
}

}  // namespace

// civetweb looks for its end when a connection comes, or else every two seconds. A daemon that
// listens on every interface or on loopback, as nearly all do, ends at once thanks to a connection
// of its own.
MetricsServer::~MetricsServer() {
  for (size_t i = 0; i < exposers_.size(); ++i) {
    SteadyNotification ended;
    std::thread touching([&] {
      while (!ended.WaitFor(absl::Milliseconds(5))) Touch(addresses_[i].port);
    });
    exposers_[i].reset();
    ended.Notify();
    touching.join();
  }
}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::vector<ListenAddress>& listen, const std::string& program,
    std::vector<std::shared_ptr<prometheus::Collectable>> sources) {
  std::unique_ptr<MetricsServer> server(new MetricsServer);
  server->sources_ = std::move(sources);
  server->sources_.push_back(std::make_shared<ProcessMetrics>(program));
  for (const ListenAddress& address : listen) {
    if (absl::Status status = server->Listen(address); !status.ok()) return status;
  }
  return server;
}

absl::Status MetricsServer::Listen(ListenAddress address) {
  // A reader that stops in the middle holds one of two threads for ten seconds at most.
  const std::vector<std::string> options = {
      "listening_ports", CivetAddress(address), "num_threads", "2", "request_timeout_ms", "10000"};
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(options);
    for (const auto& source : sources_) exposer->RegisterCollectable(source);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (!ports.empty()) address.port = static_cast<uint16_t>(ports.front());
    exposers_.push_back(std::move(exposer));
  } catch (const std::exception& error) {  // civetweb's, which does not know the reason
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", address.ToString(),
                     " for metrics: another program uses the port, or the host is not an address "
                     "of this machine; change --metrics_listen"));
  }
  log::Info("listening for metrics", {{"address", address.ToString()}});
  addresses_.push_back(std::move(address));
  return absl::OkStatus();
}

}  // namespace folio::metrics
