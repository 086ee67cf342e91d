#include "services/gateway/http/exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/gateway/http/status_text.h"

namespace folio::gateway {

Exchange::Exchange(HttpRequest request, std::function<void()> wake)
    : request_(std::move(request)), wake_(std::move(wake)), keep_alive_(request_.keep_alive) {}

void Exchange::Watch(std::function<void()> gone, std::function<void(bool)> behind) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!gone_) {
      on_gone_ = std::move(gone);
      on_behind_ = std::move(behind);
      return;
    }
  }
  gone();
}

std::string Exchange::Head(const HttpReply& reply, bool whole) {
  chunked_ = !whole && !request_.version_1_0;
  if (!whole && !chunked_) keep_alive_ = false;
  std::string head = absl::StrCat("HTTP/1.1 ", reply.status, " ", StatusText(reply.status));
  absl::StrAppend(&head, "\r\nDate: ", HttpDate());
  head += "\r\nServer: folio-gateway\r\n";
  if (!reply.type.empty()) absl::StrAppend(&head, "Content-Type: ", reply.type, "\r\n");
  if (whole && reply.status != 204) {
    absl::StrAppend(&head, "Content-Length: ", reply.body.size(), "\r\n");
  }
  if (chunked_) head += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive_) {
    head += "Connection: close\r\n";
  } else if (request_.version_1_0) {
    head += "Connection: keep-alive\r\n";
  }
  for (const auto& [name, value] : reply.fields) {
    absl::StrAppend(&head, name, ": ", value, "\r\n");
  }
  head += "\r\n";
  return head;
}

bool Exchange::WakeOnce() { return !std::exchange(woken_, true); }

void Exchange::Reply(const HttpReply& reply) {
  bool wake = false;
  std::function<void()> drop_gone;  // they may hold much
  std::function<void(bool)> drop_behind;
  {
    const absl::MutexLock lock(&mutex_);
    if (gone_ || state_ != State::kWaiting) return;
    head_ = Head(reply, /*whole=*/true);
    if (request_.method != "HEAD") head_ += reply.body;
    state_ = State::kEnded;
    drop_gone.swap(on_gone_);
    drop_behind.swap(on_behind_);
    wake = WakeOnce();
  }
  if (wake) wake_();
}

void Exchange::Begin(const HttpReply& head) {
  bool wake = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (gone_ || state_ != State::kWaiting) return;
    state_ = State::kStreaming;
    head_ = Head(head, /*whole=*/false);
    AddPiece(head.body);
    wake = WakeOnce();
  }
  if (wake) wake_();
}

void Exchange::AddPiece(absl::string_view piece) {
  pieces_.append(piece.data(), piece.size());
  if (pieces_.size() >= kBehindBytes && !behind_) {
    behind_ = true;
    if (on_behind_) on_behind_(true);
  }
}

void Exchange::Write(absl::string_view piece) {
  bool wake = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (gone_ || state_ != State::kStreaming) return;
    AddPiece(piece);
    wake = WakeOnce();
  }
  if (wake) wake_();
}

void Exchange::End() {
  bool wake = false;
  std::function<void()> drop_gone;
  std::function<void(bool)> drop_behind;
  {
    const absl::MutexLock lock(&mutex_);
    if (gone_ || state_ != State::kStreaming) return;
    state_ = State::kEnded;
    drop_gone.swap(on_gone_);
    drop_behind.swap(on_behind_);
    wake = WakeOnce();
  }
  if (wake) wake_();
}

Exchange::Output Exchange::Take() {
  const absl::MutexLock lock(&mutex_);
  woken_ = false;
  Output out;
  out.last = state_ == State::kEnded;
  out.bytes = std::exchange(head_, {});
  if (!chunked_) {
    out.bytes += pieces_;
  } else {
    if (!pieces_.empty()) {
      absl::StrAppend(&out.bytes, absl::Hex(pieces_.size()), "\r\n", pieces_, "\r\n");
    }
    if (out.last) out.bytes += "0\r\n\r\n";
  }
  pieces_.clear();
  if (std::exchange(behind_, false) && on_behind_) on_behind_(false);
  return out;
}

void Exchange::Leave() {
  std::function<void()> gone;
  std::function<void(bool)> drop_behind;
  {
    const absl::MutexLock lock(&mutex_);
    if (std::exchange(gone_, true)) return;
    pieces_ = {};
    drop_behind.swap(on_behind_);
    gone.swap(on_gone_);
  }
  if (gone) gone();
}

void Exchange::CloseAfterwards() {
  const absl::MutexLock lock(&mutex_);
  keep_alive_ = false;
}

bool Exchange::keep_alive() const {
  const absl::MutexLock lock(&mutex_);
  return keep_alive_;
}

}  // namespace folio::gateway
