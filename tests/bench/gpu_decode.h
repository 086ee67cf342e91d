// This header measures decode steps of a GPU model through the whole worker, cell by cell of a
// grid.
#ifndef FOLIO_TESTS_BENCH_GPU_DECODE_H_
#define FOLIO_TESTS_BENCH_GPU_DECODE_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/bench/gpu_limits.h"
#include "tests/bench/gpu_model.h"
#include "tests/bench/pace.h"
#include "tests/bench/serving_harness.h"

namespace folio::bench {

using Json = nlohmann::ordered_json;

struct DecodeCell {
  uint32_t batch = 1;
  uint32_t context = 0;
  uint32_t budget = 0;  // 0: the full cache

  double tokens() const { return double{1} * batch * context; }
};

// The state that the sections of a run share.
struct SpeedRun {
  GpuModel& model;
  GpuLimits limits;
  absl::Time deadline;  // nothing is begun that will probably end after it
  uint32_t steps = 32, warm_up = 16;
  std::function<void(const Json&)> put;  // one record
  mutable Pace decodes = {}, peers = {};

  bool late() const { return absl::Now() >= deadline; }
  bool late(const Pace& pace, double tokens) const {
    return absl::Now() + pace.Expected(tokens) >= deadline;
  }
  // Writes that there was no time for it.
  void LeaveOut(Json record) const;
  // Starts a record with its kind and the name of the model.
  Json Record(const std::string& record) const;
};

// The budget of PagedEviction, or 0 for none.
folio::v1::CacheOptions CacheOf(uint32_t budget, bool synchronous = false);

// Measures one cell over synthetic prompts, and notes how long that took. RESOURCE_EXHAUSTED if the
// pool is too small for it.
absl::StatusOr<Measured> MeasureDecode(const SpeedRun& run, ServingHarness& harness,
                                       const DecodeCell& cell, bool synchronous = false);

// The fewest seconds that a step of `batch` sequences with this many resident tokens can take.
double LimitSeconds(const SpeedRun& run, double batch, double resident_tokens);

// Writes a record of each cell, measured or not.
void RunGrid(const SpeedRun& run, const std::vector<DecodeCell>& cells);

// Measures the same steps without a service around them (see plain_decode.h).
void RunPeer(const SpeedRun& run, const std::vector<DecodeCell>& cells);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_DECODE_H_
