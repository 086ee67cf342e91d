// The endpoint for Prometheus, read over a real connection.
#include "services/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "services/base/unique_fd.h"
#include "services/metrics/families.h"

namespace folio::metrics {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

UniqueFd Connect(const ListenAddress& address) {
  UniqueFd connection(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return connection;
}

// The whole answer, with its head.
std::string Get(const ListenAddress& address, const std::string& path) {
  const UniqueFd connection = Connect(address);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(write(connection.get(), request.data(), request.size()),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  std::array<char, 4096> part;
  for (ssize_t n = 0; (n = read(connection.get(), part.data(), part.size())) > 0;) {
    answer.append(part.data(), static_cast<size_t>(n));
  }
  return answer;
}

ListenAddress Loopback(uint16_t port = 0) {
  ListenAddress address;
  address.host = "127.0.0.1";
  address.port = port;
  return address;
}

std::unique_ptr<MetricsServer> Start(std::vector<std::shared_ptr<prometheus::Collectable>> sources,
                                     const std::vector<ListenAddress>& listen = {Loopback()}) {
  auto server = MetricsServer::Start(listen, "a-program", std::move(sources));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

TEST(MetricsServer, ServesItsSourcesAndTheProcess) {
  auto counted = std::make_shared<prometheus::Registry>();
  auto& counter = prometheus::BuildCounter()
                      .Name("folio:events_total")
                      .Help("Events.")
                      .Register(*counted)
                      .Add({{"kind", "good"}});
  const auto server = Start({counted});
  ASSERT_NE(server, nullptr);
  ASSERT_NE(server->addresses().at(0).port, 0);
  counter.Increment(3);
  const std::string answer = Get(server->addresses().at(0), "/metrics");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("# TYPE folio:events_total counter"));
  EXPECT_THAT(answer, HasSubstr("folio:events_total{kind=\"good\"} 3\n"));
  EXPECT_THAT(answer, HasSubstr("program=\"a-program\""));
  EXPECT_THAT(answer, ContainsRegex("\nprocess_open_fds [0-9]+\n"));
  EXPECT_THAT(answer, ContainsRegex("\nprocess_resident_memory_bytes [0-9]+\n"));
  EXPECT_THAT(Get(server->addresses().at(0), "/other"), HasSubstr("404"));
}

TEST(MetricsServer, ServesSeveralAddresses) {
  const auto server = Start({}, {Loopback(), Loopback()});
  ASSERT_NE(server, nullptr);
  ASSERT_EQ(server->addresses().size(), 2U);
  ASSERT_NE(server->addresses()[0].port, server->addresses()[1].port);
  for (const ListenAddress& address : server->addresses()) {
    EXPECT_THAT(Get(address, "/metrics"), HasSubstr("folio:build_info"));
  }
}

TEST(MetricsServer, EveryInterfaceIncludesLoopback) {
  ListenAddress everywhere;
  everywhere.host = "[::]";
  const auto server = Start({}, {everywhere});
  ASSERT_NE(server, nullptr);
  EXPECT_THAT(Get(server->addresses().at(0), "/metrics"), HasSubstr("200 OK"));
}

TEST(MetricsServer, ATakenPortIsAnError) {
  const auto first = Start({});
  ASSERT_NE(first, nullptr);
  const ListenAddress taken = first->addresses().at(0);
  const auto second = MetricsServer::Start({taken}, "a-program", {});
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(taken.ToString()));
}

TEST(MetricsServer, AReaderThatSaysNothingDelaysNoOther) {
  const auto server = Start({});
  ASSERT_NE(server, nullptr);
  const UniqueFd mute = Connect(server->addresses().at(0));
  EXPECT_THAT(Get(server->addresses().at(0), "/metrics"), HasSubstr("200 OK"));
}

TEST(Families, KeepNamesTypesAndLabels) {
  const prometheus::MetricFamily gauge =
      GaugeFamily("g", "A gauge.", {{1.5, {{"a", "b"}}}, {2, {}}});
  EXPECT_EQ(gauge.type, prometheus::MetricType::Gauge);
  ASSERT_EQ(gauge.metric.size(), 2U);
  EXPECT_EQ(gauge.metric[0].gauge.value, 1.5);
  ASSERT_EQ(gauge.metric[0].label.size(), 1U);
  EXPECT_EQ(gauge.metric[0].label[0].name, "a");
  const prometheus::MetricFamily counter = CounterFamily("c_total", "A counter.", {{7, {}}});
  EXPECT_EQ(counter.type, prometheus::MetricType::Counter);
  EXPECT_EQ(counter.metric.at(0).counter.value, 7);
  EXPECT_EQ(With({{"a", "b"}}, "c", "d"), (prometheus::Labels{{"a", "b"}, {"c", "d"}}));
}

}  // namespace
}  // namespace folio::metrics
