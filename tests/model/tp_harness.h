// This harness runs a tensor-parallel group over a model in memory, with separate pages for each
// rank and one board. A script runs alone and on a group, to compare the two.
#ifndef FOLIO_TESTS_MODEL_TP_HARNESS_H_
#define FOLIO_TESTS_MODEL_TP_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/collective/collective.h"
#include "services/model/executor/executor.h"
#include "services/model/source/model_source.h"
#include "services/model/tp/tp_executor.h"
#include "tests/collective/ranks.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

using collective::testing::RanksAre;

// Floats that processes share, all NaN at first.
class SharedFloats {
 public:
  explicit SharedFloats(size_t count);
  ~SharedFloats();
  SharedFloats(const SharedFloats&) = delete;
  SharedFloats& operator=(const SharedFloats&) = delete;
  float* data() const { return data_; }

 private:
  float* data_;
  size_t count_;
};

// Stage is the place where a script runs. It has an executor, pages to give, and the board as the
// manager reads it.
struct Stage {
  Executor& executor;
  TestPool& pages;
  kernels::PoolView board;  // the columns of all KV heads; no pages
};

struct GroupSetup {
  const ModelSource& model;  // the whole
  std::string ops = "plain";
  uint32_t ranks = 2;
  RanksAre kind = RanksAre::kThreads;
  uint32_t pages = 400;
  uint32_t max_rows = 256;
  TpExecutorOptions options = {.timeout = absl::Seconds(30), .compare_tables = true};
  std::function<void(bool)> busy = nullptr;  // of the followers
};

// The geometry of all ranks together.
CacheGeometry GeometryOf(const GroupSetup& setup);

// Leads or follows with a rank's executor. The leader runs `script`. Any other rank calls `meddle`,
// if there is one, and then follows. `after`, if given, reads the rank's own executor at the end.
// Returns the failure, or an empty string.
std::string LeadOrFollow(const GroupSetup& setup, collective::Collective& group,
                         std::unique_ptr<Executor> own, TestPool& pages, const SharedFloats& board,
                         const std::function<std::string(Stage&)>& script,
                         const std::function<void(collective::Collective&)>& meddle,
                         const std::function<void(const Executor&)>& after = nullptr);

// One executor, all of the model.
std::string RunAlone(const GroupSetup& setup, const std::function<std::string(Stage&)>& script);

// The leader runs the script, the others follow; what went wrong, by rank. `meddle` is called on
// the other ranks before they follow.
std::vector<std::string> RunGroup(
    const GroupSetup& setup, const std::function<std::string(Stage&)>& script,
    const std::function<void(collective::Collective&)>& meddle = nullptr);

// The others follow a leader that has no executor and speaks for itself.
std::vector<std::string> FollowByHand(const GroupSetup& setup,
                                      const collective::testing::RankBody& leader);

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_TP_HARNESS_H_
