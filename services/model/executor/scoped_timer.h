// ScopedTimer adds the duration of a scope to a sum.
#ifndef FOLIO_SERVICES_MODEL_EXECUTOR_SCOPED_TIMER_H_
#define FOLIO_SERVICES_MODEL_EXECUTOR_SCOPED_TIMER_H_

#include <chrono>

namespace folio::model {

// In seconds.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~ScopedTimer() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_EXECUTOR_SCOPED_TIMER_H_
