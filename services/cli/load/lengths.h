// Lengths is a distribution of numbers of tokens, for prompts and for answers. Its text forms are
//
//   512                   always this number
//   uniform:20..400       each number from 20 to 400 is as likely as the others
//   lognormal:512,0.5     many short ones and few long ones, with the mean 512 and the standard
//                         deviation 0.5 of the logarithm; numbers that are too long are drawn again
#ifndef FOLIO_SERVICES_CLI_LOAD_LENGTHS_H_
#define FOLIO_SERVICES_CLI_LOAD_LENGTHS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/base/split_mix.h"

namespace folio::load {

// A plain value.
class Lengths {
 public:
  // INVALID_ARGUMENT says which forms there are.
  static absl::StatusOr<Lengths> Parse(absl::string_view text);

  // A number from 1 to `most`, which is at least 1.
  uint32_t Draw(SplitMix64& random, uint32_t most) const;

  // The largest number, or nothing where there is none.
  std::optional<uint32_t> most() const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kUniform, kLogNormal };

  std::string text_;
  Kind kind_ = Kind::kUniform;
  uint32_t first_ = 1, last_ = 1;  // of a uniform one
  double mean_ = 1, sigma_ = 0;    // of a lognormal one
};

}  // namespace folio::load

#endif  // FOLIO_SERVICES_CLI_LOAD_LENGTHS_H_
