#include "services/gateway/http/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

namespace folio::gateway {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Bytes of input that may wait while a request is answered. More stay in the system.
constexpr size_t kMostInput = size_t{64} << 10;
constexpr absl::Duration kLinger = absl::Seconds(2);
// A new connection may still ask so long after its server began to drain, for example for /health.
constexpr absl::Duration kDrainPatience = absl::Seconds(1);

std::chrono::steady_clock::time_point TimePoint(SteadyTime time) {
  if (time == SteadyTime::InfiniteFuture()) return std::chrono::steady_clock::time_point::max();
  return std::chrono::steady_clock::time_point(absl::ToChronoNanoseconds(time.since_zero()));
}

}  // namespace

Connection::Connection(asio::io_context& loop, std::unique_ptr<ByteStream> stream, std::string peer,
                       const ConnectionOptions& options, ConnectionCounts& counts)
    : loop_(loop),
      stream_(std::move(stream)),
      peer_(std::move(peer)),
      options_(options),
      counts_(counts),
      wake_(loop),
      room_(loop),
      slow_(loop) {}

Connection::~Connection() { --counts_.open; }

void Connection::Start() {
  asio::co_spawn(
      loop_, [self = shared_from_this()] { return self->Run(); }, asio::detached);
}

void Connection::Wake() { wake_.cancel(); }

void Connection::Close() {
  if (std::exchange(closed_, true)) return;
  stream_->Close();
  wake_.cancel();
  room_.cancel();
  slow_.cancel();
}

Connection::Answer Connection::Wait(SteadyTime deadline) {
  if (closed_) co_return false;
  error_code error;
  wake_.expires_at(TimePoint(deadline));
  co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return error == asio::error::operation_aborted && !closed_;
}

Connection::Task Connection::Run() {
  const auto self = shared_from_this();
  // A handshake has the time of a header.
  slow_.expires_after(absl::ToChronoNanoseconds(options_.head));
  slow_.async_wait([self](const error_code& error) {
    if (!error) self->Close();
  });
  const bool ready = co_await stream_->Handshake();
  slow_.cancel();
  if (ready && !closed_) {
    asio::co_spawn(
        loop_, [self] { return self->ReadInput(); }, asio::detached);
    while (co_await ServeOne()) {
    }
    if (!closed_) co_await Linger();
  }
  Close();
}

Connection::Task Connection::ReadInput() {
  std::array<char, size_t{8} << 10> some;
  while (!closed_) {
    if (input_.size() >= kMostInput) {
      error_code ignored;
      room_.expires_at(TimePoint(SteadyTime::InfiniteFuture()));
      co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      continue;
    }
    const size_t got = co_await stream_->Read(asio::buffer(some));
    if (got == 0) break;
    input_.append(some.data(), got);
    Wake();
  }
  input_ended_ = true;
  Wake();
}

Connection::Answer Connection::ReadRequest(RequestReader* reader) {
  SteadyTime deadline = SteadyNow() + options_.idle;
  for (;;) {
    if (!input_.empty()) {
      const bool first = !reader->started(), head = !reader->head_done();
      input_.erase(0, reader->Feed(input_));
      room_.cancel();
      if (reader->refusal().has_value() || reader->done()) co_return true;
      if (first && reader->started()) deadline = SteadyNow() + options_.head;
      if (head && reader->head_done()) {
        deadline = SteadyNow() + options_.body;
        if (reader->expects_continue() && !co_await Send("HTTP/1.1 100 Continue\r\n\r\n")) {
          co_return false;
        }
      }
    }
    if (input_ended_ || closed_) co_return false;
    if (counts_.draining && !reader->started()) {
      if (served_) co_return false;
      deadline = std::min(deadline, SteadyNow() + kDrainPatience);
    }
    if (!co_await Wait(deadline) && !closed_ && SteadyNow() >= deadline) {
      if (!reader->started()) co_return false;
      co_return co_await Refuse(408, "The request did not arrive in time.");
    }
  }
}

Connection::Answer Connection::Refuse(int status, const std::string& message) {
  ++counts_.malformed;
  HttpRequest none;
  none.keep_alive = false;
  Exchange exchange(std::move(none), [] {});
  HttpReply reply;
  reply.status = status;
  reply.body = options_.error_body(status, message);
  exchange.Reply(reply);
  (void)co_await Send(exchange.Take().bytes);
  co_return false;
}

Connection::Answer Connection::ServeOne() {
  RequestReader reader(options_.limits);
  if (!co_await ReadRequest(&reader)) co_return false;
  if (const auto& refusal = reader.refusal(); refusal.has_value()) {
    co_return co_await Refuse(refusal->status, refusal->message);
  }
  HttpRequest request = reader.Take();
  request.peer = peer_;
  // The exchange may outlive the connection, and its output is then of no use.
  auto wake = [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr) asio::post(self->loop_, [self] { self->OnOutput(); });
  };
  const auto exchange = std::make_shared<Exchange>(std::move(request), std::move(wake));
  if (counts_.draining) exchange->CloseAfterwards();
  current_ = exchange.get();
  served_ = true;
  ++counts_.answering;
  options_.handler(exchange);
  const bool given = co_await GiveAnswer(*exchange);
  --counts_.answering;
  current_ = nullptr;
  if (!given) {
    ++counts_.left;
    exchange->Leave();
  }
  co_return given && exchange->keep_alive() && !counts_.draining;
}

void Connection::OnOutput() {
  if (!awaiting_) return;
  Exchange::Output output = current_->Take();
  const size_t sent = output.bytes.empty() ? 0 : stream_->WriteNow(output.bytes);
  if (sent == output.bytes.size() && !output.last) return;
  unsent_ = sent == 0 ? std::move(output.bytes) : output.bytes.substr(sent);
  last_ = output.last;
  awaiting_ = false;
  Wake();
}

Connection::Answer Connection::GiveAnswer(Exchange& exchange) {
  unsent_.clear();
  last_ = false;
  for (;;) {
    if (unsent_.empty() && !last_) {
      Exchange::Output output = exchange.Take();
      unsent_ = std::move(output.bytes);
      last_ = output.last;
    }
    const bool sends = !unsent_.empty();
    if (sends && !co_await Send(std::exchange(unsent_, {}))) co_return false;
    if (last_) co_return true;
    if (sends) continue;  // more may have come meanwhile
    if (input_ended_ || closed_) co_return false;
    awaiting_ = true;
    (void)co_await Wait(SteadyTime::InfiniteFuture());
    awaiting_ = false;
  }
}

Connection::Answer Connection::Send(std::string bytes) {
  absl::string_view rest = bytes;
  while (!rest.empty()) {
    if (closed_) co_return false;
    size_t sent = stream_->WriteNow(rest);
    if (sent == 0) {
      slow_.expires_after(absl::ToChronoNanoseconds(options_.send));
      slow_.async_wait([self = shared_from_this()](const error_code& error) {
        if (!error) self->Close();
      });
      sent = co_await stream_->WriteSome(rest);
      slow_.cancel();
      if (sent == 0) co_return false;
    }
    rest.remove_prefix(sent);
  }
  co_return true;
}

Connection::Task Connection::EndOutput() { co_await stream_->EndOutput(); }

Connection::Task Connection::Linger() {
  const auto self = shared_from_this();
  asio::co_spawn(
      loop_, [self] { return self->EndOutput(); }, asio::detached);
  const SteadyTime deadline = SteadyNow() + kLinger;
  while (!input_ended_ && !closed_ && SteadyNow() < deadline) {
    input_.clear();
    room_.cancel();
    (void)co_await Wait(deadline);
  }
}

}  // namespace folio::gateway
