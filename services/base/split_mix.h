// SplitMix64 is the generator of random numbers that repeat from a seed, in policies and in a
// load. It is small enough to be specified in a sentence and gives the same numbers on every
// machine. Its source is Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
// 2014.
#ifndef FOLIO_SERVICES_BASE_SPLIT_MIX_H_
#define FOLIO_SERVICES_BASE_SPLIT_MIX_H_

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace folio {

// It serves the distributions of <random>.
class SplitMix64 {
 public:
  using result_type = uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  explicit constexpr SplitMix64(uint64_t seed) : state_(seed) {}

  // A separate stream for each list of keys.
  static constexpr SplitMix64 Of(std::initializer_list<uint64_t> keys) {
    uint64_t state = 0;
    for (uint64_t key : keys) state = SplitMix64(state ^ key).Next();
    return SplitMix64(state);
  }

  constexpr uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  constexpr result_type operator()() { return Next(); }

 private:
  uint64_t state_;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SPLIT_MIX_H_
