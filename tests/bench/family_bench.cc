// What the parts that a family has beyond Llama cost: prefill and decode of each family beside
// Llama of the same shape, both with random weights in bf16. Chunks of a prompt and single steps
// take turns, and each one's lowest decile counts, because a shared machine is slower for tenths
// of a second and for minutes. Models are made twice, in both orders, because the memory
// that a process gets first may be slower than what it gets later. The family `llama` shows how far
// equal models differ.
//   family_bench [--rounds=20] [--families=llama,qwen2,qwen3] [--json=FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "tests/model/executor_harness.h"

ABSL_FLAG(int, threads, 1, "threads; more than one may share the matrix units of a core");
ABSL_FLAG(int, rounds, 20, "sequences of each family in either order");
ABSL_FLAG(std::vector<std::string>, families,
          (std::vector<std::string>{"llama", "qwen2", "qwen3", "ministral3", "gemma3", "phi3",
                                    "granite", "smollm3"}),
          "what is measured beside Llama");
ABSL_FLAG(std::string, json, "", "also write all times in milliseconds by family to this file");

namespace folio::bench {
namespace {

using model::ModelConfig;
using model::SequenceSlot;
using model::testing::ExecutorHarness;
using model::testing::Tokens;

constexpr uint32_t kChunk = 256, kContext = 1024, kSteps = 16, kPageTokens = 64;

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

// In milliseconds, in the order of the sequences. Chunks differ by what is in front of them.
struct Times {
  std::vector<std::vector<double>> chunks{kContext / kChunk};
  std::vector<double> steps;
};

class Contestant {
 public:
  explicit Contestant(const std::string& family)
      : harness_("auto", model::testing::OfFamily(family, Shape()), absl::GetFlag(FLAGS_threads),
                 kChunk, kPageTokens),
        tokens_(model::testing::RandomTokens(kContext, Shape().vocab, 7)) {}

  void Begin() { slot_ = harness_.Open(kContext + kSteps); }
  void End() {
    harness_.executor().tables().Release(slot_);
    harness_.pool().TakeBackAll();
  }
  void Prefill(uint32_t chunk) {
    const auto first = tokens_.begin() + chunk * kChunk;
    times_.chunks[chunk].push_back(
        Milliseconds(harness_.Prompt(slot_, Tokens(first, first + kChunk), chunk * kChunk)));
  }
  void Decode(uint32_t position) {
    times_.steps.push_back(Milliseconds(harness_.Decode(slot_, tokens_[0], position)));
  }
  // Forgets what it measured so far.
  void Restart() { times_ = {}; }
  const Times& times() const { return times_; }

 private:
  double Milliseconds(model::StepSegment segment) {
    segment.top_logprobs = 0;
    const absl::Time start = absl::Now();
    (void)harness_.Run({segment});
    return absl::ToDoubleMilliseconds(absl::Now() - start);
  }

  ExecutorHarness harness_;
  SequenceSlot slot_{};
  Tokens tokens_;
  Times times_;
};

// A tenth of the values lie below it.
double LowestDecile(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 10];
}

double Prefill(const Times& times) {
  double sum = 0;
  for (const std::vector<double>& chunk : times.chunks) sum += LowestDecile(chunk);
  return sum;
}

struct Comparison {
  Times family, llama;

  double prefill() const { return Prefill(family) / Prefill(llama); }
  double decode() const { return LowestDecile(family.steps) / LowestDecile(llama.steps); }
};

Comparison Compare(const std::string& family, bool family_first) {
  Contestant first(family_first ? family : "llama");
  Contestant second(family_first ? "llama" : family);
  for (int round = 0; round <= absl::GetFlag(FLAGS_rounds); ++round) {
    first.Begin();
    second.Begin();
    for (uint32_t i = 0; i < kContext / kChunk; ++i) {
      const bool swapped = (i + round) % 2 == 1;
      (swapped ? second : first).Prefill(i);
      (swapped ? first : second).Prefill(i);
    }
    for (uint32_t i = 0; i < kSteps; ++i) {
      (i % 2 == 1 ? second : first).Decode(kContext + i);
      (i % 2 == 1 ? first : second).Decode(kContext + i);
    }
    first.End();
    second.End();
    if (round > 0) continue;
    first.Restart();
    second.Restart();
  }
  return family_first ? Comparison{first.times(), second.times()}
                      : Comparison{second.times(), first.times()};
}

nlohmann::json Json(const Times& times) {
  return {{"chunks", times.chunks}, {"steps", times.steps}};
}

// The mean of both orders, and each of them.
void Print(double one, double other) {
  std::printf("  %8.3f (%.3f and %.3f)", std::sqrt(one * other), one, other);
}

void Measure() {
  // Mistral's models are Llama's, and Ministral's scale queries by their position.
  nlohmann::json json;
  std::printf("times of Llama's   prompt of %u          decode 1 x %u\n", kContext, kContext);
  for (const std::string& family : absl::GetFlag(FLAGS_families)) {
    const Comparison behind = Compare(family, false), before = Compare(family, true);
    std::printf("%-10s", family.c_str());
    Print(behind.prefill(), before.prefill());
    Print(behind.decode(), before.decode());
    std::printf("\n");
    std::fflush(stdout);
    for (const Comparison& one : {behind, before}) {
      json[family].push_back({{"family", Json(one.family)}, {"llama", Json(one.llama)}});
    }
  }
  if (const std::string file = absl::GetFlag(FLAGS_json); !file.empty()) {
    std::ofstream(file) << json.dump() << '\n';
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  folio::bench::Measure();
  return 0;
}
