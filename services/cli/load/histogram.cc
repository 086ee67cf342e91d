#include "services/cli/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace folio::load {
namespace {

// Nanoseconds below 512 have a bucket each. Above, each power of two has 256 of them.
constexpr int kBits = 8;

size_t BucketOf(uint64_t nanos) {
  const int shift = std::max(static_cast<int>(std::bit_width(nanos)) - kBits - 1, 0);
  return (static_cast<size_t>(shift) << kBits) + static_cast<size_t>(nanos >> shift);
}

// The middle of the bucket, in nanoseconds.
double MiddleOf(size_t bucket) {
  if (bucket < size_t{2} << kBits) return static_cast<double>(bucket);
  const size_t shift = (bucket >> kBits) - 1;
  const uint64_t first = static_cast<uint64_t>(bucket - (shift << kBits)) << shift;
  return static_cast<double>(first) + static_cast<double>((uint64_t{1} << shift) - 1) / 2;
}

}  // namespace

void Histogram::Add(double seconds) {
  seconds = std::clamp(seconds, 0.0, 1e9);
  const size_t bucket = BucketOf(static_cast<uint64_t>(std::llround(seconds * 1e9)));
  if (bucket >= buckets_.size()) buckets_.resize(bucket + 1);
  ++buckets_[bucket];
  min_ = count_ == 0 ? seconds : std::min(min_, seconds);
  max_ = std::max(max_, seconds);
  sum_ += seconds;
  ++count_;
}

void Histogram::Merge(const Histogram& other) {
  if (other.count_ == 0) return;
  buckets_.resize(std::max(buckets_.size(), other.buckets_.size()));
  for (size_t i = 0; i < other.buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  count_ += other.count_;
}

double Histogram::Percentile(double share) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= std::max<uint64_t>(rank, 1)) {
      return std::clamp(MiddleOf(bucket) * 1e-9, min_, max_);
    }
  }
  return max_;
}

}  // namespace folio::load
