// How long something took, added to a sum.
#ifndef FOLIO_SERVICES_MODEL_TIMED_H_
#define FOLIO_SERVICES_MODEL_TIMED_H_

#include <chrono>

namespace folio::model {

// Adds the time it lived to a sum, in seconds.
class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum), start_(std::chrono::steady_clock::now()) {}
  ~Timed() {
    sum_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& sum_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TIMED_H_
