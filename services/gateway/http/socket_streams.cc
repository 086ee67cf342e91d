#include "services/gateway/http/socket_streams.h"

#include <sys/socket.h>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

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

class TlsStream : public ByteStream {
 public:
  TlsStream(Socket socket, std::shared_ptr<TlsContext> tls)
      : tls_(std::move(tls)), stream_(std::move(socket), *tls_) {}

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
  const std::shared_ptr<TlsContext> tls_;
  asio::ssl::stream<Socket> stream_;
};

}  // namespace

std::unique_ptr<ByteStream> MakeStream(asio::io_context& loop, UniqueFd socket,
                                       const std::shared_ptr<TlsContext>& tls) {
  int family = 0;
  socklen_t size = sizeof(family);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &family, &size) != 0) return nullptr;
  Socket made(loop);
  error_code error;
  made.assign(asio::generic::stream_protocol(family, 0), socket.get(), error);
  if (error) return nullptr;
  (void)socket.Release();
  if (tls == nullptr) return std::make_unique<PlainStream>(std::move(made));
  return std::make_unique<TlsStream>(std::move(made), tls);
}

}  // namespace folio::gateway
