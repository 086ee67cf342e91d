// How a benchmark ends when something it needs fails.
#ifndef FOLIO_TESTS_BENCH_OR_DIE_H_
#define FOLIO_TESTS_BENCH_OR_DIE_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"

namespace folio::bench {

// The value, or the error on stderr and exit code 1.
template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "folio_bench: %s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_OR_DIE_H_
