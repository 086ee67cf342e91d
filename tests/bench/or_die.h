// OrDie ends a benchmark when something that it needs fails.
#ifndef FOLIO_TESTS_BENCH_OR_DIE_H_
#define FOLIO_TESTS_BENCH_OR_DIE_H_

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"

namespace folio::bench {

// Prints an error to stderr and exits with code 1.
inline void OrDie(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "benchmark: %s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  OrDie(value.status());
  return *std::move(value);
}

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_OR_DIE_H_
