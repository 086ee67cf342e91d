// What the parts that a family has beyond Llama cost: prefill and decode of each family beside
// Llama of the same shape, both with random weights in bf16. Single prompts and short runs of steps
// take turns, and the median of the turns' ratios counts, because a shared machine is slower for
// seconds at a time. Models are made twice, in both orders, because the memory that a process gets
// first may be slower than what it gets later. The family `llama` shows how far equal models
// differ.
//   family_bench [--rounds=20] [--families=llama,qwen2,qwen3] [--json=FILE]
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
ABSL_FLAG(int, rounds, 20, "turns of each family in either order");
ABSL_FLAG(std::vector<std::string>, families,
          (std::vector<std::string>{"llama", "qwen2", "qwen3", "ministral3", "gemma3", "phi3",
                                    "granite", "smollm3"}),
          "what is measured beside Llama");
ABSL_FLAG(std::string, json, "", "also write the ratios of each turn by family to this file");

namespace folio::bench {
namespace {

using model::ModelConfig;
using model::SequenceSlot;
using model::testing::ExecutorHarness;
using model::testing::Tokens;

constexpr uint32_t kPrompt = 512, kContext = 1024, kSteps = 8, kPageTokens = 64;

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

// One entry for each turn.
struct Ratios {
  std::vector<double> prefill, decode;
};

// Times are in milliseconds.
class Contestant {
 public:
  explicit Contestant(const std::string& family)
      : harness_("auto", model::testing::OfFamily(family, Shape()), absl::GetFlag(FLAGS_threads),
                 kPrompt, kPageTokens),
        tokens_(model::testing::RandomTokens(kContext, Shape().vocab, 7)) {}

  // Begins a sequence with a prompt.
  double Begin() {
    slot_ = harness_.Open(kContext + kSteps);
    return Prefill(0);
  }
  void FillContext() {
    for (uint32_t first = kPrompt; first < kContext; first += kPrompt) Prefill(first);
  }
  // The steps behind the context, which end the sequence.
  double Decode() {
    double took = 0;
    for (uint32_t i = 0; i < kSteps; ++i) {
      took += Milliseconds(harness_.Decode(slot_, i, kContext + i));
    }
    harness_.executor().tables().Release(slot_);
    harness_.pool().TakeBackAll();
    return took;
  }

 private:
  double Prefill(uint32_t first) {
    const Tokens part(tokens_.begin() + first, tokens_.begin() + first + kPrompt);
    return Milliseconds(harness_.Prompt(slot_, part, first));
  }
  double Milliseconds(model::StepSegment segment) {
    segment.top_logprobs = 0;
    const absl::Time start = absl::Now();
    (void)harness_.Run({segment});
    return absl::ToDoubleMilliseconds(absl::Now() - start);
  }

  ExecutorHarness harness_;
  SequenceSlot slot_{};
  Tokens tokens_;
};

// Adds each turn's ratios of the family to Llama. The first turn only warms up.
void Compare(const std::string& family, bool family_first, Ratios& ratios) {
  Contestant first(family_first ? family : "llama");
  Contestant second(family_first ? "llama" : family);
  Contestant& of_family = family_first ? first : second;
  Contestant& of_llama = family_first ? second : first;
  for (int round = 0; round <= absl::GetFlag(FLAGS_rounds); ++round) {
    const double prefill = of_family.Begin();
    const double llama_prefill = of_llama.Begin();
    of_family.FillContext();
    of_llama.FillContext();
    const double decode = of_family.Decode();
    const double llama_decode = of_llama.Decode();
    if (round == 0) continue;
    ratios.prefill.push_back(prefill / llama_prefill);
    ratios.decode.push_back(decode / llama_decode);
  }
}

double Quantile(std::vector<double> values, double q) {
  std::ranges::sort(values);
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

// The median, and between which values half of the turns are.
void Print(const std::vector<double>& ratios) {
  std::printf("  %8.3f (%.3f to %.3f)", Quantile(ratios, 0.5), Quantile(ratios, 0.25),
              Quantile(ratios, 0.75));
}

void Measure() {
  // Mistral's models are Llama's, and Ministral's scale queries by their position.
  nlohmann::json json;
  std::printf("times of Llama's   prompt of %u           decode 1 x %u\n", kPrompt, kContext);
  for (const std::string& family : absl::GetFlag(FLAGS_families)) {
    Ratios ratios;
    Compare(family, false, ratios);
    Compare(family, true, ratios);
    std::printf("%-10s", family.c_str());
    Print(ratios.prefill);
    Print(ratios.decode);
    std::printf("\n");
    std::fflush(stdout);
    json[family] = {{"prefill", ratios.prefill}, {"decode", ratios.decode}};
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
