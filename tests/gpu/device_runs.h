// DeviceRuns puts the tables of sequences of resident tokens on the device, for tests of scores.
#ifndef FOLIO_TESTS_GPU_DEVICE_RUNS_H_
#define FOLIO_TESTS_GPU_DEVICE_RUNS_H_

#include <memory>
#include <vector>

#include "tests/gpu/device_data.h"
#include "tests/kernels/score_data.h"

namespace folio::kernels::cuda {

using cpu::Angles;
using cpu::KeyAt;
using cpu::kUntouched;
using cpu::PromptWindow;
using cpu::ScoreShape;
using cpu::Tokens;

// Arrays that runs point at, on the device as long as this lives.
class DeviceTables {
 public:
  const uint32_t* Put(const std::vector<uint32_t>& values) {
    memory_.push_back(std::make_unique<OnDevice<uint32_t>>(values));
    return memory_.back()->data();
  }

 private:
  std::vector<std::unique_ptr<OnDevice<uint32_t>>> memory_;
};

inline constexpr ScoreShape kScoreShapes[] = {{3, 3, 64, 16}, {1, 1, 64, 16}, {2, 4, 128, 16},
                                              {1, 8, 64, 16}, {2, 2, 32, 16}, {1, 4, 256, 16},
                                              {1, 7, 80, 16}, {1, 5, 16, 8},  {1, 6, 128, 32},
                                              {1, 3, 96, 16}, {2, 2, 24, 16}};

// Every number of the board.
inline void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, float share,
                       float least) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], std::fabs(want[i]) * share + least) << "score " << i;
  }
}

}  // namespace folio::kernels::cuda

#endif  // FOLIO_TESTS_GPU_DEVICE_RUNS_H_
