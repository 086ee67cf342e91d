// Random is a small generator of random bits that repeats from its seed on every machine.
#ifndef FOLIO_SERVICES_CLI_LOAD_RANDOM_H_
#define FOLIO_SERVICES_CLI_LOAD_RANDOM_H_

#include <cstdint>
#include <limits>

namespace folio::load {

// It is SplitMix64 (Steele, Lea, Flood 2014), and serves the distributions of <random>. Streams of
// one seed are independent, so each request has its own, whatever the order in which requests are
// made.
class Random {
 public:
  using result_type = uint64_t;

  explicit Random(uint64_t seed, uint64_t stream = 0) : state_(seed) {
    state_ = (*this)() ^ stream;
    state_ = (*this)();
  }

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() {
    uint64_t mixed = state_ += 0x9E3779B97F4A7C15ULL;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_RANDOM_H_
