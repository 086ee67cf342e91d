// What the parts that a family has beyond Llama cost: prefill and decode of each family beside
// Llama of the same shape, both with random weights in bf16. Families take turns, and the best of
// each counts.
//   family_bench [--rounds=5] [--json=FILE]
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/model/executor_harness.h"

ABSL_FLAG(int, threads, 2, "threads");
ABSL_FLAG(int, rounds, 5, "turns of each family");
ABSL_FLAG(std::string, json, "", "also write times in milliseconds by family to this file");

namespace folio::bench {
namespace {

using model::ModelConfig;
using model::SequenceSlot;
using model::testing::ExecutorHarness;
using model::testing::Tokens;

constexpr uint32_t kPrompt = 512, kContext = 1024, kSteps = 24, kPageTokens = 64;

// A quarter of Llama-3.2-1B's layers, so that a run takes minutes. Weights come from memory anyway.
ModelConfig Shape() {
  ModelConfig config = model::testing::TinyConfig();
  config.num_layers = 4;
  config.hidden = 2048;
  config.ffn = 8192;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = 64;
  config.vocab = 8192;
  config.context = 4096;
  config.rope_theta = 500000;
  config.tied_embeddings = true;
  return config;
}

struct Times {
  double prefill = 1e9, decode = 1e9;  // milliseconds of a prompt, and of a step
};

class Contestant {
 public:
  explicit Contestant(const std::string& family)
      : name_(family),
        harness_("auto", model::testing::OfFamily(family, Shape()), absl::GetFlag(FLAGS_threads),
                 kPrompt, kPageTokens) {}

  void Run() {
    const SequenceSlot slot = harness_.Open(kContext + kSteps + 1);
    const Tokens tokens = model::testing::RandomTokens(kContext, Shape().vocab, 7);
    for (uint32_t first = 0; first < kContext; first += kPrompt) {
      const Tokens part(tokens.begin() + first, tokens.begin() + first + kPrompt);
      const double took = Milliseconds(Greedy(harness_.Prompt(slot, part, first)));
      if (first == 0) times_.prefill = std::min(times_.prefill, took);
    }
    for (uint32_t i = 0; i < kSteps; ++i) {
      const double took = Milliseconds(Greedy(harness_.Decode(slot, i, kContext + i)));
      times_.decode = std::min(times_.decode, took);
    }
    harness_.executor().tables().Release(slot);
    harness_.pool().TakeBackAll();
  }
  const std::string& name() const { return name_; }
  const Times& times() const { return times_; }

 private:
  static model::StepSegment Greedy(model::StepSegment segment) {
    segment.top_logprobs = 0;
    return segment;
  }
  double Milliseconds(const model::StepSegment& segment) {
    const absl::Time start = absl::Now();
    (void)harness_.Run({segment});
    return absl::ToDoubleMilliseconds(absl::Now() - start);
  }

  std::string name_;
  ExecutorHarness harness_;
  Times times_;
};

void Measure() {
  // Mistral's models are Llama's, and Ministral's scale queries by their position.
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const char* family :
       {"llama", "qwen2", "qwen3", "ministral3", "gemma3", "phi3", "granite", "smollm3"}) {
    contestants.push_back(std::make_unique<Contestant>(family));
  }
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    for (const auto& one : contestants) one->Run();
  }
  const Times& llama = contestants[0]->times();
  nlohmann::json json;
  std::printf("family     prefill %u   of Llama's   decode 1 x %u   of Llama's\n", kPrompt,
              kContext);
  for (const auto& one : contestants) {
    const Times& times = one->times();
    std::printf("%-10s %8.1f ms %10.3f %13.2f ms %10.3f\n", one->name().c_str(), times.prefill,
                times.prefill / llama.prefill, times.decode, times.decode / llama.decode);
    json[one->name()] = {{"prefill", times.prefill}, {"decode", times.decode}};
  }
  if (const std::string file = absl::GetFlag(FLAGS_json); !file.empty()) {
    std::ofstream(file) << json.dump(1) << '\n';
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  folio::bench::Measure();
  return 0;
}
