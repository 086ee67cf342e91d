// SendBuffer holds the messages of one call that its client has not taken yet, and says when they
// are so many that the sequence should stand still.
#ifndef FOLIO_SERVICES_WORKER_RPC_SEND_BUFFER_H_
#define FOLIO_SERVICES_WORKER_RPC_SEND_BUFFER_H_

#include <cstddef>
#include <deque>
#include <utility>

#include "folio/v1/inference.pb.h"

namespace folio::worker {

// Thread-compatible.
class SendBuffer {
 public:
  // A client that reads is a few messages behind at most. A step under way may still add messages
  // to a full buffer, so the limits are soft.
  static constexpr size_t kMaxMessages = 256;
  static constexpr size_t kMaxBytes = size_t{1} << 20;

  void Push(folio::v1::GenerateResponse message) {
    bytes_ += message.ByteSizeLong();
    messages_.push_back(std::move(message));
  }
  // The oldest message. It stays in place while others are added.
  const folio::v1::GenerateResponse& front() const { return messages_.front(); }
  void Pop() {
    bytes_ -= messages_.front().ByteSizeLong();
    messages_.pop_front();
  }
  void Clear() {
    messages_.clear();
    bytes_ = 0;
  }

  bool empty() const { return messages_.empty(); }
  bool full() const { return messages_.size() >= kMaxMessages || bytes_ >= kMaxBytes; }
  // Far below full, so that a client at the limit does not stop and start its sequence at each
  // message.
  bool drained() const { return messages_.size() <= kMaxMessages / 2 && bytes_ <= kMaxBytes / 2; }

 private:
  std::deque<folio::v1::GenerateResponse> messages_;
  size_t bytes_ = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_SEND_BUFFER_H_
