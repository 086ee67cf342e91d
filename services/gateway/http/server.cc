#include "services/gateway/http/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <string>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace folio::gateway {
namespace {

namespace asio = boost::asio;

std::string PeerOf(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "gone";
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address.ss_family == AF_INET) {
    const auto* ip = reinterpret_cast<const sockaddr_in*>(&address);
    inet_ntop(AF_INET, &ip->sin_addr, text.data(), text.size());
    return absl::StrCat(text.data(), ":", ntohs(ip->sin_port));
  }
  if (address.ss_family == AF_INET6) {
    const auto* ip = reinterpret_cast<const sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &ip->sin6_addr, text.data(), text.size());
    return absl::StrCat("[", text.data(), "]:", ntohs(ip->sin6_port));
  }
  return "unix";
}

}  // namespace

// Loop is one thread with its connections.
class HttpServer::Loop {
 public:
  Loop() : work_(context_.get_executor()), thread_([this] { Run(); }) {}
  ~Loop() {
    asio::post(context_, [this] {
      for (const auto& connection : Living()) connection->Close();
      work_.reset();
    });
    thread_.join();
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Any thread.
  void Add(const std::shared_ptr<UniqueFd>& socket, std::shared_ptr<TlsContext> tls,
           const HttpServerOptions& options, ConnectionCounts& counts) {
    asio::post(context_, [this, socket, tls = std::move(tls), &options, &counts] {
      std::string peer = PeerOf(socket->get());
      auto stream = MakeStream(context_, std::move(*socket), tls);
      if (stream == nullptr) {
        --counts.open;
        return;
      }
      auto connection = std::make_shared<Connection>(context_, std::move(stream), std::move(peer),
                                                     options.connection, counts);
      connections_[connection.get()] = connection;
      if (connections_.size() > 2 * lived_ + 64) ForgetClosed();
      connection->Start();
    });
  }
  void Wake() {
    asio::post(context_, [this] {
      for (const auto& connection : Living()) connection->Wake();
    });
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "http");
    context_.run();
  }
  std::vector<std::shared_ptr<Connection>> Living() const {
    std::vector<std::shared_ptr<Connection>> living;
    for (const auto& [_, weak] : connections_) {
      if (auto connection = weak.lock(); connection != nullptr) {
        living.push_back(std::move(connection));
      }
    }
    return living;
  }
  // A connection that ends does not say so, and its place may be taken by a new one.
  void ForgetClosed() {
    absl::erase_if(connections_, [](const auto& entry) { return entry.second.expired(); });
    lived_ = connections_.size();
  }

  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  absl::flat_hash_map<const Connection*, std::weak_ptr<Connection>> connections_;
  size_t lived_ = 0;  // at the last look
  std::thread thread_;
};

HttpServer::HttpServer(HttpServerOptions options) : options_(std::move(options)) {}

HttpServer::~HttpServer() {
  acceptor_.reset();
  loops_.clear();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Make(HttpServerOptions options) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(options)));
  for (const ListenAddress& address : server->options_.listen) {
    auto listening = ListeningSocket::Open(address, server->options_.socket_mode);
    if (!listening.ok()) return listening.status();
    server->listening_.push_back(*std::move(listening));
  }
  return server;
}

void HttpServer::Start() {
  std::vector<int> sockets;
  for (const ListeningSocket& listening : listening_) {
    for (const UniqueFd& socket : listening.sockets()) sockets.push_back(socket.get());
  }
  for (int i = 0; i < std::max(options_.threads, 1); ++i) {
    loops_.push_back(std::make_unique<Loop>());
  }
  acceptor_ = std::make_unique<SocketAcceptor>(
      std::move(sockets), [this](UniqueFd socket) { Accept(std::move(socket)); }, nullptr);
}

void HttpServer::Accept(UniqueFd socket) {
  if (counts_.open >= options_.max_connections) {
    ++counts_.refused;
    return;
  }
  ++counts_.open;
  // Here and not on a loop, whose connections would wait for the disk.
  std::shared_ptr<TlsContext> tls = options_.tls == nullptr ? nullptr : options_.tls->Current();
  loops_[turn_++ % loops_.size()]->Add(std::make_shared<UniqueFd>(std::move(socket)),
                                       std::move(tls), options_, counts_);
}

void HttpServer::Drain() {
  counts_.draining = true;
  for (const auto& loop : loops_) loop->Wake();
}

}  // namespace folio::gateway
