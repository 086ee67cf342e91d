// TimedLink measures the time of a manager that works inside Send.
#ifndef FOLIO_TESTS_BENCH_TIMED_LINK_H_
#define FOLIO_TESTS_BENCH_TIMED_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "services/base/steady_time.h"
#include "services/worker/link/manager_link.h"

namespace folio::bench {

// The in-process link handles a request inside Send, so its time is the manager's.
class TimedLink final : public worker::ManagerLink {
 public:
  explicit TimedLink(std::unique_ptr<worker::ManagerLink> link) : link_(std::move(link)) {}
  uint64_t Send(SessionRequest request) override {
    const SteadyTime start = SteadyNow();
    const uint64_t step = link_->Send(std::move(request));
    seconds_ += absl::ToDoubleSeconds(SteadyNow() - start);
    return step;
  }
  std::optional<SessionReply> TryReceive() override { return link_->TryReceive(); }
  std::optional<SessionReply> Receive(SteadyTime deadline) override {
    return link_->Receive(deadline);
  }
  void Wake() override { link_->Wake(); }
  absl::Status status() const override { return link_->status(); }
  double seconds() const { return seconds_; }

 private:
  std::unique_ptr<worker::ManagerLink> link_;
  double seconds_ = 0;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_TIMED_LINK_H_
