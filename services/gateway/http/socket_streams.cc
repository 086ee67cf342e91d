#include "services/gateway/http/socket_streams.h"

#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace folio::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Socket = asio::generic::stream_protocol::socket;

auto Redirect(error_code& error) { return asio::redirect_error(asio::use_awaitable, error); }

asio::const_buffer Buffer(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(Socket socket) : socket_(std::move(socket)) {}

  asio::awaitable<bool> Handshake() override { co_return true; }

  asio::awaitable<size_t> Read(asio::mutable_buffer into) override {
    error_code error;
    const size_t got = co_await socket_.async_read_some(into, Redirect(error));
    co_return error ? 0 : got;
  }

  size_t WriteNow(absl::string_view bytes) override {
    const ssize_t sent =
        send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent < 0 ? 0 : static_cast<size_t>(sent);
  }

  asio::awaitable<size_t> WriteSome(absl::string_view bytes) override {
    error_code error;
    const size_t sent = co_await socket_.async_write_some(Buffer(bytes), Redirect(error));
    co_return error ? 0 : sent;
  }

  asio::awaitable<void> EndOutput() override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    co_return;
  }

  void Close() override {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
};

class LoadedTls : public ServerTls {
 public:
  asio::ssl::context context{asio::ssl::context::tls_server};
};

class TlsStream : public ByteStream {
 public:
  TlsStream(Socket socket, std::shared_ptr<LoadedTls> tls)
      : tls_(std::move(tls)), stream_(std::move(socket), tls_->context) {}

  asio::awaitable<bool> Handshake() override {
    error_code error;
    co_await stream_.async_handshake(asio::ssl::stream_base::server, Redirect(error));
    co_return !error;
  }

  asio::awaitable<size_t> Read(asio::mutable_buffer into) override {
    error_code error;
    const size_t got = co_await stream_.async_read_some(into, Redirect(error));
    co_return error ? 0 : got;
  }

  // OpenSSL cannot take back what it has encrypted.
  size_t WriteNow(absl::string_view) override { return 0; }

  asio::awaitable<size_t> WriteSome(absl::string_view bytes) override {
    error_code error;
    const size_t sent = co_await stream_.async_write_some(Buffer(bytes), Redirect(error));
    co_return error ? 0 : sent;
  }

  asio::awaitable<void> EndOutput() override {
    error_code ignored;
    co_await stream_.async_shutdown(Redirect(ignored));
    stream_.next_layer().shutdown(Socket::shutdown_send, ignored);
  }

  void Close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }

 private:
  const std::shared_ptr<LoadedTls> tls_;
  asio::ssl::stream<Socket> stream_;
};

absl::Status CannotUse(const std::string& file, const error_code& error) {
  return absl::InvalidArgumentError(absl::StrCat(file, ": ", error.message()));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ServerTls>> ServerTls::Load(const std::string& certificate,
                                                           const std::string& key,
                                                           const std::string& client_ca) {
  auto tls = std::make_shared<LoadedTls>();
  asio::ssl::context& context = tls->context;
  error_code error;
  context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                          asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                          asio::ssl::context::no_tlsv1_1 | SSL_OP_NO_RENEGOTIATION,
                      error);
  if (context.use_certificate_chain_file(certificate, error); error) {
    return CannotUse(certificate, error);
  }
  if (context.use_private_key_file(key, asio::ssl::context::pem, error); error) {
    return CannotUse(key, error);
  }
  if (client_ca.empty()) return tls;
  if (context.load_verify_file(client_ca, error); error) return CannotUse(client_ca, error);
  context.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  return tls;
}

std::unique_ptr<ByteStream> MakeStream(asio::io_context& loop, UniqueFd socket,
                                       const std::shared_ptr<ServerTls>& tls) {
  int family = 0;
  socklen_t size = sizeof(family);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return nullptr;
  Socket made(loop);
  error_code error;
  made.assign(asio::generic::stream_protocol(family, 0), socket.get(), error);
  if (error) return nullptr;
  (void)socket.Release();
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(made));
  return std::make_unique<TlsStream>(std::move(made), std::static_pointer_cast<LoadedTls>(tls));
}

}  // namespace folio::gateway
