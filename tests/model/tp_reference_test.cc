// Tensor parallelism on the reference model, whose 9 query and 3 KV heads go evenly over 3 ranks
// and not over 2 or 4. Wants FOLIO_MODEL, the path of the reference model.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "services/base/check.h"
#include "tests/model/tp_harness.h"

namespace folio::model::testing {
namespace {

constexpr uint32_t kTokens = 64;
// After an eviction tokens are fed: with less to go by, ties come sooner. What log-probabilities
// may differ by is what any other order of sums makes of them, as in oracle_executor_test.cc.
constexpr double kWorst = 0.5, kMean = 0.05;

// The shortest prompt of the independent reference.
std::vector<TokenId> Prompt() {
  std::ifstream file(FOLIO_ORACLE "/generation.json");
  FOLIO_CHECK(file.good());
  std::vector<TokenId> prompt;
  for (const nlohmann::json& one : nlohmann::json::parse(file)) {
    if (!prompt.empty() && one["prompt_ids"].size() >= prompt.size()) continue;
    prompt.clear();
    for (const uint32_t id : one["prompt_ids"]) prompt.emplace_back(id);
  }
  return prompt;
}

class Greedy {
 public:
  Greedy(Stage& stage, uint32_t layers) : stage_(stage), layers_(layers) {
    slot_ = stage.executor.tables().Acquire(kernels::ScoreKind::kNormRatio);
  }

  // A prompt, or nothing: what was said last. `target`: what to say next instead of choosing.
  void Feed(const std::vector<TokenId>& tokens, bool prompt, std::optional<TokenId> target) {
    while (stage_.executor.tables().at(slot_).free_tokens() < std::max<size_t>(1, tokens.size())) {
      stage_.executor.tables().Extend(slot_, stage_.pages.Take(1));
    }
    StepSegment segment;
    segment.slot = slot_;
    segment.prompt = prompt;
    segment.tokens = tokens;
    segment.first_position = Position(position_);
    segment.want_output = true;
    segment.target = target;
    segment.top_logprobs = 0;
    const StepOutput output = stage_.executor.Collect(stage_.executor.Enqueue({{segment}}));
    FOLIO_CHECK(output.status.ok());
    position_ += std::max<size_t>(1, tokens.size());
    tokens_.push_back(output.outputs.at(0).token.value());
    logprobs_.push_back(output.outputs.at(0).logprob);
  }
  // Keeps the first 16 and the last 64.
  void Evict() {
    const uint32_t resident = stage_.executor.tables().at(slot_).resident(LayerIndex(0));
    std::vector<TokenSlot> keep;
    for (uint32_t i = 0; i < resident; ++i) {
      if (i < 16 || i + 64 >= resident) keep.emplace_back(i);
    }
    const std::vector<std::vector<TokenSlot>> all(layers_, keep);
    stage_.executor.Compact(slot_, {all, std::vector<PageCount>(layers_, PageCount(0))});
  }
  std::string said() const {
    return absl::StrCat(absl::StrJoin(tokens_, " "), "|", absl::StrJoin(logprobs_, " "));
  }

 private:
  Stage& stage_;
  uint32_t layers_;
  SequenceSlot slot_;
  uint32_t position_ = 0;
  std::vector<uint32_t> tokens_;
  std::vector<float> logprobs_;
};

void ExpectAlike(const std::string& said, const std::string& want) {
  const std::vector<std::string> a = absl::StrSplit(said, '|'), b = absl::StrSplit(want, '|');
  ASSERT_EQ(a.size(), 2u) << said;
  EXPECT_EQ(a[0], b[0]);
  const std::vector<std::string> ours = absl::StrSplit(a[1], ' '),
                                 theirs = absl::StrSplit(b[1], ' ');
  ASSERT_EQ(ours.size(), theirs.size());
  double sum = 0, worst = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double difference = std::abs(std::stod(ours[i]) - std::stod(theirs[i]));
    sum += difference;
    worst = std::max(worst, difference);
  }
  const double mean = sum / static_cast<double>(ours.size());
  std::cout << "log-probabilities differ by " << mean << " on average, " << worst << " at worst\n";
  EXPECT_LE(worst, kWorst);
  EXPECT_LE(mean, kMean);
}

TEST(TpReference, GreedyTokensAreThoseOfOneRank) {
  const char* path = std::getenv("FOLIO_MODEL");
  if (path == nullptr) GTEST_SKIP() << "FOLIO_MODEL is not set: the reference model is needed";
  const auto model = OpenModel(path);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::vector<TokenId> prompt = Prompt();
  const auto generate = [&](Stage& stage) {
    Greedy greedy(stage, (*model)->config().num_layers);
    greedy.Feed(prompt, true, std::nullopt);
    for (uint32_t i = 1; i < kTokens; ++i) greedy.Feed({}, false, std::nullopt);
    greedy.Evict();
    for (const TokenId next : prompt) greedy.Feed({}, false, next);
    return greedy.said();
  };
  GroupSetup setup = {.model = **model, .pages = 900};
  const std::string want = RunAlone(setup, generate);
  for (const uint32_t ranks : {2u, 3u, 4u}) {
    setup.ranks = ranks;
    setup.kind = ranks == 3 ? RanksAre::kThreads : RanksAre::kProcesses;
    const std::vector<std::string> said = RunGroup(setup, generate);
    SCOPED_TRACE(absl::StrCat(ranks, " ranks"));
    ExpectAlike(said[0], want);
    for (uint32_t rank = 1; rank < ranks; ++rank) EXPECT_EQ(said[rank], "") << "rank " << rank;
  }
}

}  // namespace
}  // namespace folio::model::testing
