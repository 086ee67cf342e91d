// ExecutorHarness runs a random tiny model on an executor, with calls that read well in tests.
#ifndef FOLIO_TESTS_MODEL_EXECUTOR_HARNESS_H_
#define FOLIO_TESTS_MODEL_EXECUTOR_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/model/cpu/cpu_executor.h"
#include "tests/model/random_model.h"

namespace folio::model::testing {

using Tokens = std::vector<uint32_t>;

// "plain", a fast family's name, or "auto".
std::unique_ptr<kernels::cpu::CpuOps> OpsNamed(const std::string& name);
// Those this CPU can run, plain first.
std::vector<std::string> OpsNames();

// Log-probabilities of the whole vocabulary, by token id.
std::vector<float> ByToken(const SegmentOutput& output);

Tokens RandomTokens(uint32_t count, uint32_t vocab, uint64_t seed);

class ExecutorHarness {
 public:
  explicit ExecutorHarness(const std::string& ops, ModelConfig config = TinyConfig(),
                           int threads = 2, uint32_t max_rows = 256, uint32_t page_tokens = 16);

  Executor& executor() { return *executor_; }
  const RandomModel& model() const { return model_; }
  TestPool& pool() { return pool_; }

  // A slot with room for `tokens`.
  SequenceSlot Open(uint32_t tokens, kernels::ScoreKind score = kernels::ScoreKind::kNone);

  // Segments that want every log-probability.
  StepSegment Prompt(SequenceSlot slot, const Tokens& tokens, uint32_t first) const;
  StepSegment Decode(SequenceSlot slot, uint32_t token, uint32_t position) const;

  std::vector<SegmentOutput> Run(std::vector<StepSegment> segments);
  // The prompt in chunks of at most `chunk`, then each of `fed` as a decode step. The result has
  // the log-probabilities after the prompt and after every fed token.
  std::vector<std::vector<float>> RunAlone(SequenceSlot slot, const Tokens& prompt,
                                           const Tokens& fed, uint32_t chunk = 1000);

 private:
  RandomModel model_;
  TestPool pool_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_EXECUTOR_HARNESS_H_
