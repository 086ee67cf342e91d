// Connection serves one client: it reads requests one after another, gives each to the handler, and
// sends the answers.
#ifndef FOLIO_SERVICES_GATEWAY_HTTP_CONNECTION_H_
#define FOLIO_SERVICES_GATEWAY_HTTP_CONNECTION_H_

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "services/base/steady_time.h"
#include "services/gateway/http/awaitable.h"
#include "services/gateway/http/byte_stream.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/http/request_reader.h"

namespace folio::gateway {

// Called on the thread of a connection, and must not block. It answers now or later.
using HttpHandler = std::function<void(const std::shared_ptr<Exchange>&)>;
// The body of an answer to bytes that are not a request.
using HttpErrorBody = std::function<std::string(int status, const std::string& message)>;

struct ConnectionOptions {
  RequestLimits limits;
  absl::Duration idle = absl::Seconds(75);  // without a request
  absl::Duration head = absl::Seconds(10);  // from a request's first byte to its header's end
  absl::Duration body = absl::Seconds(60);  // from there to its body's end
  absl::Duration send = absl::Seconds(60);  // without the client taking a byte of an answer
  HttpHandler handler;
  HttpErrorBody error_body;
};

// All connections of a server share it. Thread-safe.
struct ConnectionCounts {
  std::atomic<bool> draining = false;  // connections end with the answer that they give
  std::atomic<int> open = 0;
  std::atomic<int> answering = 0;
  std::atomic<uint64_t> refused = 0;    // since as many as are allowed were open
  std::atomic<uint64_t> malformed = 0;  // requests that were none
  std::atomic<uint64_t> left = 0;       // clients that went before they had their answer
};

// It lives until the connection is closed, and is used on the thread of its loop.
//
// While an answer is awaited, the connection is still read. A client that closes it, or the half
// that it sends on, has left.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // All but the stream are borrowed. It is counted as open until its end; the caller has begun to.
  Connection(boost::asio::io_context& loop, std::unique_ptr<ByteStream> stream, std::string peer,
             const ConnectionOptions& options, ConnectionCounts& counts);
  ~Connection();

  void Start();
  // Looks again at what it waits for, such as `draining`.
  void Wake();
  void Close();

 private:
  using Task = boost::asio::awaitable<void>;
  using Answer = boost::asio::awaitable<bool>;

  Task Run();
  // Fills input_ until the client sends no more.
  Task ReadInput();
  // Reads a request and answers it. False if the connection ends.
  Answer ServeOne();
  // False if the connection ends without an answer.
  Answer ReadRequest(RequestReader* reader);
  Answer Refuse(int status, const std::string& message);
  Answer GiveAnswer(Exchange& exchange);
  Answer Send(std::string bytes);
  // Waits for Wake, or for the deadline, and then returns false.
  Answer Wait(SteadyTime deadline);
  Task EndOutput();
  // Lets the client read the last answer before the connection is reset.
  Task Linger();
  // There is something to send, which needs no turn of the coroutine if the system takes it.
  void OnOutput();

  boost::asio::io_context& loop_;
  const std::unique_ptr<ByteStream> stream_;
  const std::string peer_;
  const ConnectionOptions& options_;
  ConnectionCounts& counts_;
  boost::asio::steady_timer wake_;  // rings never, or at a deadline
  boost::asio::steady_timer room_;  // likewise, for the reader of input
  boost::asio::steady_timer slow_;  // rings when the client has not read for too long
  std::string input_;               // not parsed yet
  bool input_ended_ = false;
  Exchange* current_ = nullptr;  // that is being answered
  bool awaiting_ = false;        // its output, and nothing is being sent
  std::string unsent_;           // output that the system did not take at once
  bool last_ = false;            // nothing comes after unsent_
  bool served_ = false;          // a request came
  bool closed_ = false;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_HTTP_CONNECTION_H_
