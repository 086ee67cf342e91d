// OracleSequence replays a generation of tests/oracle on an executor of any device, with one
// sequence and its manager. The README of tests/oracle says how near is near enough.
#ifndef FOLIO_TESTS_MODEL_ORACLE_SEQUENCE_H_
#define FOLIO_TESTS_MODEL_ORACLE_SEQUENCE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/views.h"
#include "services/model/executor/executor.h"
#include "services/policy/policy.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

// K and V are stored as bf16. A value between two of its neighbours is rounded to either of them by
// the order of float32 sums, and later layers show it. Norm weights moved by 10^-7, or double
// precision throughout, move single log-probabilities on these prompts by up to 0.03, and by 0.003
// on average. So averages are held to the oracle's bound, single values to what noise allows.
struct Tolerance {
  double full_worst, full_mean, evicted_worst, evicted_mean;
  double tie;   // greedy tokens may differ from the first step with a smaller gap
  double kept;  // share of the kept tokens that agree
};
inline constexpr Tolerance kFloat32 = {0.06, 0.01, 0.5, 0.05, 0.02, 0.99};
inline constexpr Tolerance kBfloat16 = {1e9, 0.1, 1e9, 0.1, 0.25, 0.95};

struct OracleCase {
  std::string name;
  nlohmann::json json;
};
void PrintTo(const OracleCase& one, std::ostream* out);

// The cases whose policy is built. `path` is tests/oracle/generation.json.
std::vector<OracleCase> OracleCases(const std::string& path);

// One sequence and its manager: pages, policy, decisions in step with the decoding.
class ManagedSequence {
 public:
  static constexpr uint32_t kPages = 3600;  // are enough for the longest
  static constexpr uint32_t kChunk = 512;   // rows of a step

  // All borrowed. `pool` gives pages, their scores are on `board`, as the host sees it.
  ManagedSequence(Executor& executor, TestPool& pool, const kernels::PoolView& board,
                  const nlohmann::json& one);
  ~ManagedSequence() { executor_.tables().Release(slot_); }

  // The whole prompt, then the compaction. `target`: the token to take instead of sampling.
  SegmentOutput Prefill(const std::vector<uint32_t>& prompt, std::optional<TokenId> target);
  // Feeds one token (or, without one, what was sampled last) and evicts when its page is full.
  SegmentOutput Feed(std::optional<TokenId> token, std::optional<TokenId> target);

  uint32_t resident() const { return executor_.tables().at(slot_).resident(LayerIndex(0)); }
  const std::vector<std::vector<TokenSlot>>& kept() const { return kept_; }
  const std::vector<std::vector<BlockIndex>>& drops() const { return drops_; }

 private:
  SegmentOutput Run(StepSegment& segment, uint32_t position);
  void Extend(uint32_t count);
  policy::LayerScores Scores(uint32_t layer, std::vector<const float*>& pages);
  void Compact();
  void Drop();

  Executor& executor_;
  TestPool& pool_;
  const kernels::PoolView board_;
  std::shared_ptr<const policy::Policy> policy_;
  policy::Limits limits_;
  SequenceSlot slot_;
  std::vector<std::vector<PageRef>> tables_;
  std::vector<std::vector<TokenSlot>> kept_;
  std::vector<std::vector<BlockIndex>> drops_;
  uint32_t position_ = 0;
};

// The reference's own tokens, fed as decode steps, `most` of them: each log-probability, what was
// kept and what was dropped. Expectations of the test that calls.
void ExpectLogprobs(ManagedSequence& sequence, const nlohmann::json& oracle,
                    const Tolerance& tolerance, size_t most = SIZE_MAX);
// Greedy and free-running: the same until a tie.
void ExpectGreedyTokens(ManagedSequence& sequence, const nlohmann::json& oracle,
                        const Tolerance& tolerance, size_t most = SIZE_MAX);

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_ORACLE_SEQUENCE_H_
