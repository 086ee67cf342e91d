// Histogram counts durations in buckets whose width is 1/256 of their value or less, so that any
// number of them takes some kilobytes. Its percentiles are right to 0.4 %, and its mean, least and
// largest value are exact.
#ifndef FOLIO_SERVICES_CLI_LOAD_HISTOGRAM_H_
#define FOLIO_SERVICES_CLI_LOAD_HISTOGRAM_H_

#include <cstdint>
#include <vector>

namespace folio::load {

// Not thread-safe.
class Histogram {
 public:
  // Negative values count as 0, and those above 10^9 seconds as that.
  void Add(double seconds);
  void Merge(const Histogram& other);

  uint64_t count() const { return count_; }
  // These are 0 where nothing was added. The percentile of `share`, from 0 to 1, is the least value
  // that so many of the values do not exceed.
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double max() const { return max_; }
  double Percentile(double share) const;

 private:
  std::vector<uint64_t> buckets_;  // as long as the largest value needs
  uint64_t count_ = 0;
  double sum_ = 0, min_ = 0, max_ = 0;
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_HISTOGRAM_H_
