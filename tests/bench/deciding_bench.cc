// How long the manager takes to decide, without a model or a GPU, at the shapes of models on a GPU:
//   deciding_bench --shapes=1b,8b --sequences=64,128 --policies=paged_eviction,kv_crush,query_diff
//
// A prompt of --context tokens is compacted to --budget, and then sequences decode in steps, a
// sixteenth of them filling a page at a time. Scores are taken out of the processor's caches before
// the manager reads them, because a GPU writes them past these. The times stand beside those of a
// prompt and of a step on an H100 (tests/bench/results/gpu), as a share of them. The digest is of
// all decisions, so that builds can be compared. With --state_dir the manager keeps a journal.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/client/policy_text.h"
#include "tests/bench/moveless_worker.h"
#include "tests/bench/or_die.h"

ABSL_FLAG(std::vector<std::string>, shapes, (std::vector<std::string>{"1b", "8b"}),
          "shapes of Llama 3: 1b (16 layers) and 8b (32 layers), of 8 KV heads");
ABSL_FLAG(std::vector<std::string>, sequences, (std::vector<std::string>{"64", "128"}),
          "numbers of sequences that decode together");
ABSL_FLAG(std::vector<std::string>, policies,
          (std::vector<std::string>{"paged_eviction", "kv_crush", "query_diff"}),
          "policies, as folioctl writes them, separated by ',' and with no parameters");
ABSL_FLAG(uint32_t, context, 8192, "tokens of a prompt");
ABSL_FLAG(uint32_t, budget, 1024, "tokens that a layer keeps");
ABSL_FLAG(uint32_t, steps, 320, "measured steps");
ABSL_FLAG(std::string, state_dir, "", "a folder for the journal of the manager; none if empty");
ABSL_FLAG(uint32_t, threads, 0, "threads that share the manager's longer decisions with its own");

namespace folio::bench {
namespace {

// What an H100 takes for the same: tests/bench/results/gpu/2026-11-22-h100. The step is of
// sequences that are held to 1,024 tokens, and the prompt has 8,192.
struct Shape {
  const char* name;
  uint32_t layers;
  double prompt_ms;
  double step_ms_64;
  double step_ms_128;
};
constexpr Shape kShapes[] = {{"1b", 16, 48.4, 2.49, 3.74}, {"8b", 32, 243.1, 9.99, 12.72}};

const Shape& ShapeOf(const std::string& name) {
  for (const Shape& shape : kShapes) {
    if (name == shape.name) return shape;
  }
  std::fprintf(stderr, "--shapes: no shape %s; give 1b or 8b\n", name.c_str());
  std::exit(2);
}

double Micros(absl::Duration time) { return absl::ToDoubleMicroseconds(time); }

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void Measure(const Shape& shape, uint32_t sequences, const std::string& policy) {
  v1::CacheOptions cache;
  *cache.mutable_policy() = OrDie(client::ParsePolicy(policy));
  cache.set_budget_tokens(absl::GetFlag(FLAGS_budget));
  const CacheGeometry geometry = {.num_layers = shape.layers, .num_kv_heads = 8, .head_dim = 64};
  const auto worker =
      OrDie(MovelessWorker::Create(geometry, sequences, absl::GetFlag(FLAGS_context), cache,
                                   absl::GetFlag(FLAGS_threads), absl::GetFlag(FLAGS_state_dir)));
  std::vector<double> prompt, prompt_deciding;
  for (uint32_t i = 0; i < sequences; ++i) {
    const ManagerTime time = OrDie(worker->Prompt());
    prompt.push_back(Micros(time.whole));
    prompt_deciding.push_back(Micros(time.deciding));
  }
  // So that in each step as many sequences fill a page as in any other.
  for (uint32_t i = 1; i < geometry.page_tokens; ++i) {
    OrDie(worker->Step(sequences * i / geometry.page_tokens).status());
  }
  ManagerTime steps;
  const uint32_t count = absl::GetFlag(FLAGS_steps);
  for (uint32_t i = 0; i < geometry.page_tokens; ++i) OrDie(worker->Step(sequences).status());
  for (uint32_t i = 0; i < count; ++i) {
    const ManagerTime time = OrDie(worker->Step(sequences));
    steps.whole += time.whole;
    steps.deciding += time.deciding;
  }
  const double gpu_step = sequences == 64 ? shape.step_ms_64 : shape.step_ms_128;
  std::printf("%-4s %9u  %-24s %9.0f us %9.0f us %6.2f %%   %9.1f us %9.1f us %6.2f %%   %016llx\n",
              shape.name, sequences, policy.c_str(), Median(prompt), Median(prompt_deciding),
              Median(prompt) / shape.prompt_ms / 10, Micros(steps.whole) / count,
              Micros(steps.deciding) / count, Micros(steps.whole) / count / gpu_step / 10,
              static_cast<unsigned long long>(worker->digest()));
  std::fflush(stdout);
}

void Main() {
  std::printf("%u tokens held to %u; shares are of an H100's time for 8,192 held to 1,024\n",
              absl::GetFlag(FLAGS_context), absl::GetFlag(FLAGS_budget));
  std::printf("%-4s %9s  %-24s %12s %12s %8s   %12s %12s %8s   %s\n", "", "sequences", "policy",
              "a prompt", "deciding", "share", "a step", "deciding", "share", "digest");
  for (const std::string& name : absl::GetFlag(FLAGS_shapes)) {
    for (const std::string& number : absl::GetFlag(FLAGS_sequences)) {
      uint32_t sequences = 0;
      if (!absl::SimpleAtoi(number, &sequences) || sequences == 0) {
        std::fprintf(stderr, "--sequences: %s is not a number above 0\n", number.c_str());
        std::exit(2);
      }
      for (const std::string& policy : absl::GetFlag(FLAGS_policies)) {
        Measure(ShapeOf(name), sequences, policy);
      }
    }
  }
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "How long the manager takes to decide, at shapes of models on a GPU.");
  absl::ParseCommandLine(argc, argv);
  folio::bench::Main();
  return 0;
}
