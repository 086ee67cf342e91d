// What the parts that a family has beyond Llama cost: prefill and decode of each family beside
// Llama of the same shape, both with random weights in bf16. Both take turns, and the best of each
// counts. They are made twice, in both orders, because the memory that a process gets first may be
// slower than what it gets later.
//   family_bench [--rounds=3] [--families=qwen2,qwen3] [--json=FILE]
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/model/executor_harness.h"

ABSL_FLAG(int, threads, 2, "threads");
ABSL_FLAG(int, rounds, 3, "turns of each family in either order");
ABSL_FLAG(std::vector<std::string>, families,
          (std::vector<std::string>{"qwen2", "qwen3", "ministral3", "gemma3", "phi3", "granite",
                                    "smollm3"}),
          "what is measured beside Llama");
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
      : harness_("auto", model::testing::OfFamily(family, Shape()), absl::GetFlag(FLAGS_threads),
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

  ExecutorHarness harness_;
  Times times_;
};

void KeepBest(const Times& from, Times& to) {
  to.prefill = std::min(to.prefill, from.prefill);
  to.decode = std::min(to.decode, from.decode);
}

// The best times of both.
void Compare(const std::string& one, const std::string& other, Times& of_one, Times& of_other) {
  Contestant first(one);
  Contestant second(other);
  for (int round = 0; round < absl::GetFlag(FLAGS_rounds); ++round) {
    first.Run();
    second.Run();
  }
  KeepBest(first.times(), of_one);
  KeepBest(second.times(), of_other);
}

void Measure() {
  // Mistral's models are Llama's, and Ministral's scale queries by their position.
  nlohmann::json json;
  std::printf("family     prefill %u   of Llama's   decode 1 x %u   of Llama's\n", kPrompt,
              kContext);
  for (const std::string& family : absl::GetFlag(FLAGS_families)) {
    Times times;
    Times llama;
    Compare("llama", family, llama, times);
    Compare(family, "llama", times, llama);
    std::printf("%-10s %8.1f ms %10.3f %13.2f ms %10.3f\n", family.c_str(), times.prefill,
                times.prefill / llama.prefill, times.decode, times.decode / llama.decode);
    std::fflush(stdout);
    json[family] = {{"prefill", times.prefill},
                    {"decode", times.decode},
                    {"llama", {{"prefill", llama.prefill}, {"decode", llama.decode}}}};
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
