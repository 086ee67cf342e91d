// Schedule says when requests are due. A closed loop has a number of clients that each ask again
// when they have their answer. An open loop has requests that come by themselves at a rate.
#ifndef FOLIO_SERVICES_CLI_LOAD_SCHEDULE_H_
#define FOLIO_SERVICES_CLI_LOAD_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "services/base/split_mix.h"
#include "services/base/steady_time.h"

namespace folio::load {

// Not thread-safe.
class Schedule {
 public:
  virtual ~Schedule() = default;
  // When the next request is due. In the infinite future if an answer must come first.
  virtual SteadyTime Next() const = 0;
  // That request was sent.
  virtual void Sent() = 0;
  // A request has ended at that time, well or with a failure.
  virtual void Ended(SteadyTime at, bool ok) = 0;
};

// A client that was refused waits before it asks again, so that a worker that refuses everything
// is not flooded.
class ClosedLoop : public Schedule {
 public:
  static constexpr absl::Duration kPauseAfterFailure = absl::Milliseconds(100);

  ClosedLoop(size_t clients, SteadyTime begin) {
    for (size_t i = 0; i < clients; ++i) due_.push(begin);
  }

  SteadyTime Next() const override {
    return due_.empty() ? SteadyTime::InfiniteFuture() : due_.top();
  }
  void Sent() override { due_.pop(); }
  void Ended(SteadyTime at, bool ok) override { due_.push(ok ? at : at + kPauseAfterFailure); }

 private:
  // The times from which clients that have no request running ask again.
  std::priority_queue<SteadyTime, std::vector<SteadyTime>, std::greater<>> due_;
};

// The times between requests have a gamma distribution of the mean 1 / rate. With the shape 1 they
// are exponential, which makes arrivals a Poisson process. Smaller shapes make bursts, and larger
// ones make arrivals regular.
class OpenLoop : public Schedule {
 public:
  // `rate` per second and `shape` are above 0.
  OpenLoop(double rate, double shape, uint64_t seed, SteadyTime begin)
      : random_(SplitMix64::Of({seed, 0})), gaps_(shape, 1 / (rate * shape)), next_(begin) {
    Sent();
  }

  SteadyTime Next() const override { return next_; }
  void Sent() override { next_ += absl::Seconds(gaps_(random_)); }
  void Ended(SteadyTime /*at*/, bool /*ok*/) override {}

 private:
  SplitMix64 random_;
  std::gamma_distribution<double> gaps_;
  SteadyTime next_;
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_SCHEDULE_H_
