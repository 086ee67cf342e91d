#include "tests/model/executor_harness.h"

#include <algorithm>
#include <random>

#include "services/base/check.h"

namespace folio::model::testing {

std::unique_ptr<kernels::cpu::CpuOps> OpsNamed(const std::string& name) {
  if (name == "plain") return kernels::cpu::MakePlainOps();
  return *kernels::cpu::MakeFastOps(name);
}

std::vector<std::string> OpsNames() {
  std::vector<std::string> names = {"plain"};
  for (const char* name : {"avx512_amx", "avx512_bf16", "avx512", "avx2", "portable"}) {
    if (kernels::cpu::MakeFastOps(name).ok()) names.emplace_back(name);
  }
  return names;
}

std::vector<float> ByToken(const SegmentOutput& output) {
  std::vector<float> logprobs(output.top.size());
  for (const auto& [token, logprob] : output.top) logprobs[token.value()] = logprob;
  return logprobs;
}

Tokens RandomTokens(uint32_t count, uint32_t vocab, uint64_t seed) {
  std::mt19937_64 random(seed);
  Tokens tokens;
  for (uint32_t i = 0; i < count; ++i) tokens.push_back(static_cast<uint32_t>(random() % vocab));
  return tokens;
}

ExecutorHarness::ExecutorHarness(const std::string& ops, ModelConfig config, int threads,
                                 uint32_t max_rows, uint32_t page_tokens)
    : model_(std::move(config), 1234), pool_(model_.config(), 400, page_tokens) {
  CpuExecutorOptions options;
  options.max_rows = max_rows;
  executor_ = *MakeCpuExecutor(model_, OpsNamed(ops), threads, pool_.view(), options);
}

SequenceSlot ExecutorHarness::Open(uint32_t tokens, kernels::ScoreKind score) {
  const SequenceSlot slot = executor_->tables().Acquire(score);
  executor_->tables().Extend(slot, pool_.Take(pool_.view().geometry.pages_for(tokens)));
  return slot;
}

StepSegment ExecutorHarness::Prompt(SequenceSlot slot, const Tokens& tokens, uint32_t first) const {
  StepSegment segment;
  segment.slot = slot;
  segment.prompt = true;
  for (const uint32_t token : tokens) segment.tokens.emplace_back(token);
  segment.first_position = Position(first);
  segment.want_output = true;
  segment.top_logprobs = static_cast<int>(model_.config().vocab);
  return segment;
}

StepSegment ExecutorHarness::Decode(SequenceSlot slot, uint32_t token, uint32_t position) const {
  StepSegment segment = Prompt(slot, {token}, position);
  segment.prompt = false;
  return segment;
}

std::vector<SegmentOutput> ExecutorHarness::Run(std::vector<StepSegment> segments) {
  StepBatch batch;
  batch.segments = std::move(segments);
  StepOutput output = executor_->Collect(executor_->Enqueue(batch));
  FOLIO_CHECK(output.status.ok());
  return std::move(output.outputs);
}

std::vector<std::vector<float>> ExecutorHarness::RunAlone(SequenceSlot slot, const Tokens& prompt,
                                                          const Tokens& fed, uint32_t chunk) {
  std::vector<std::vector<float>> logprobs;
  for (uint32_t first = 0; first < prompt.size(); first += chunk) {
    const auto end = std::min<size_t>(prompt.size(), first + size_t{chunk});
    StepSegment segment =
        Prompt(slot, Tokens(&prompt[first], &prompt[first] + (end - first)), first);
    segment.want_output = end == prompt.size();
    const auto outputs = Run({segment});
    if (segment.want_output) logprobs.push_back(ByToken(outputs.at(0)));
  }
  auto position = static_cast<uint32_t>(prompt.size());
  for (const uint32_t token : fed) {
    logprobs.push_back(ByToken(Run({Decode(slot, token, position++)}).at(0)));
  }
  return logprobs;
}

}  // namespace folio::model::testing
