// RandomDamage is a source of random numbers whose seed repeats a failed run. It also damages bytes
// as a broken or hostile peer may.
#ifndef FOLIO_TESTS_TESTING_RANDOM_DAMAGE_H_
#define FOLIO_TESTS_TESTING_RANDOM_DAMAGE_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace folio::testing {

class RandomDamage {
 public:
  // The seed is that of the environment's FOLIO_FUZZ_SEED, or another one each time. It is printed
  // at once, since a crash leaves no other word.
  RandomDamage()
      : seed_(FromEnvironment("FOLIO_FUZZ_SEED", std::random_device()())), random_(seed_) {
    std::cout << repeat() << std::endl;
  }

  // For failure messages.
  std::string repeat() const { return absl::StrCat("repeat with FOLIO_FUZZ_SEED=", seed_); }

  // How often to try: `usual` times, unless FOLIO_FUZZ_STEPS says otherwise.
  static int Rounds(int usual) {
    return static_cast<int>(FromEnvironment("FOLIO_FUZZ_STEPS", usual));
  }

  uint64_t Below(uint64_t end) { return random_() % end; }
  bool OneIn(uint64_t times) { return Below(times) == 0; }
  uint64_t Bits() { return random_(); }

  template <typename T>
  const T& AnyOf(const std::vector<T>& values) {
    return values[Below(values.size())];
  }

  std::string Bytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Below(256));
    return bytes;
  }

  // Flips, deletes, repeats and replaces some of the bytes. Pieces of `other` may come in.
  std::string Damage(std::string bytes, const std::string& other) {
    for (uint64_t wounds = 1 + Below(4); wounds > 0; --wounds) {
      if (bytes.empty()) return Bytes(Below(8));
      const size_t at = Below(bytes.size());
      const size_t count = std::min<size_t>(1 + Below(16), bytes.size() - at);
      switch (Below(6)) {
        case 0:
        case 1:
          bytes[at] ^= static_cast<char>(1U << Below(8));
          break;
        case 2:
          bytes.erase(at, count);
          break;
        case 3:
          bytes.insert(at, bytes.substr(at, count));
          break;
        case 4:
          bytes[at] = static_cast<char>(Below(256));
          break;
        case 5: {
          const size_t from = Below(other.size() + 1);
          bytes.insert(at, other.substr(from, Below(64)));
          break;
        }
      }
    }
    return bytes;
  }

 private:
  static uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
  }

  const uint64_t seed_;
  std::mt19937_64 random_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_RANDOM_DAMAGE_H_
