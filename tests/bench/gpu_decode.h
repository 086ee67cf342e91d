// Decode steps of a GPU model through the whole worker, cell by cell of a grid.
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
#include "tests/bench/serving_rig.h"

namespace folio::bench {

using Json = nlohmann::ordered_json;

struct DecodeCell {
  uint32_t batch = 1;
  uint32_t context = 0;
  uint32_t budget = 0;  // 0: the full cache
};

// What the sections of a run share.
struct SpeedRun {
  GpuModel& model;
  GpuLimits limits;
  absl::Time deadline;  // nothing is begun after it
  uint32_t steps = 32, warm_up = 16;
  std::function<void(const Json&)> put;  // one record

  bool late() const { return absl::Now() >= deadline; }
  // {"record": record, "model": its name}
  Json Record(const std::string& record) const;
};

// Budget of PagedEviction; 0: none.
folio::v1::CacheOptions CacheOf(uint32_t budget, bool synchronous = false);

// One cell over synthetic prompts. RESOURCE_EXHAUSTED: the pool is too small for it.
absl::StatusOr<Measured> MeasureDecode(const SpeedRun& run, ServingRig& rig, const DecodeCell& cell,
                                       bool synchronous = false);

// The least seconds of a step of `batch` sequences with so many resident tokens in all.
double LimitSeconds(const SpeedRun& run, double batch, double resident_tokens);

// A record of each cell, measured or not.
void RunGrid(const SpeedRun& run, const std::vector<DecodeCell>& cells);

// The same steps without a service around them; see plain_decode.h.
void RunPeer(const SpeedRun& run, const std::vector<DecodeCell>& cells);

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_GPU_DECODE_H_
