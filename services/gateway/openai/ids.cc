#include "services/gateway/openai/ids.h"

#include <cstdint>
#include <random>

#include "absl/strings/str_cat.h"

namespace folio::gateway {
namespace {

std::mt19937_64 SeededGenerator() {
  std::random_device device;
  std::seed_seq seed = {device(), device(), device(), device()};
  return std::mt19937_64(seed);
}

}  // namespace

std::string NewId(absl::string_view prefix) {
  thread_local std::mt19937_64 generator = SeededGenerator();
  const uint64_t first = generator();
  return absl::StrCat(prefix, absl::Hex(first, absl::kZeroPad16),
                      absl::Hex(generator(), absl::kZeroPad16));
}

}  // namespace folio::gateway
