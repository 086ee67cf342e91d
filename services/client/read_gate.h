// ReadGate lets the receiver of a generation stop and continue its reading. A receiver that is
// slower than the worker closes the gate. The worker then notices that its messages are not taken,
// and lets the sequence stand still, so that no memory fills up on the way.
#ifndef FOLIO_SERVICES_CLIENT_READ_GATE_H_
#define FOLIO_SERVICES_CLIENT_READ_GATE_H_

#include <memory>

namespace folio::client {

// It is open at first. Any number of generations may share a gate. Thread-safe. Copies are handles
// to the same gate. A worker ends a generation that is not read for its --slow_client_timeout.
class ReadGate {
 public:
  ReadGate();

  // The generations give the event that each is reading, and then no other until the gate is open.
  // Also the news that the worker is lost or that the deadline has passed wait that long. Only a
  // cancellation does not wait.
  void Close() const;
  void Open() const;

 private:
  friend class Streams;
  // Waiter is a reader that the gate holds up.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Called once, under the gate's lock.
    virtual void Continue() = 0;
  };
  struct State;

  // True if the gate is closed. `waiter` is then called when it opens, or by Release.
  bool Wait(Waiter* waiter) const;
  // Continues `waiter` if it waits.
  void Release(Waiter* waiter) const;

  std::shared_ptr<State> state_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_READ_GATE_H_
