// decode_gate --model=MODEL fails if decode takes twice the time that it should take on this
// machine.
//
// One thread decodes one sequence, which reads all weights for each token, and in turn reads as
// many bytes and does nothing else. The quotient of the two speeds is the same on a fast and on a
// slow machine. Both are measured in CPU time, which other programs on the machine change by a few
// percent where they multiply the time of day, and the median of several turns counts. It is 0.9 to
// 1.5 with the kernels for AVX2 and later, and 0.54 to 0.59 with the portable ones.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "kernels/threads/thread_pool.h"
#include "tests/bench/loaded_harness.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/or_die.h"
#include "tests/bench/serving_harness.h"

ABSL_FLAG(std::string, model, "", "GGUF file or Hugging Face directory");
ABSL_FLAG(std::string, kernels, "auto", "family of bfloat16 kernels");
ABSL_FLAG(double, least, 0.6, "the least share of the speed of reading that passes");
ABSL_FLAG(int, turns, 7, "measurements of either kind");

namespace folio::bench {
namespace {

constexpr uint32_t kSteps = 32;
constexpr uint32_t kPrompt = 16;  // tokens, which one more step computes

// Bytes of weights that a step reads: every layer once, and the output matrix.
double StepBytes(const model::ModelConfig& config) {
  const double q = double{1} * config.heads * config.head_dim;
  const double kv = double{1} * config.kv_heads * config.head_dim;
  const double layer = config.hidden * (2 * q + 2 * kv) + 3.0 * config.hidden * config.ffn;
  return 2 * (config.num_layers * layer + double{1} * config.vocab * config.hidden);
}

int Main() {
  const auto model = OrDie(worker::LoadedModel::Load({.path = absl::GetFlag(FLAGS_model)},
                                                     {.compute = "bfloat16",
                                                      .kernels = absl::GetFlag(FLAGS_kernels),
                                                      .weights = "bfloat16",
                                                      .threads = 1},
                                                     nullptr));
  constexpr uint64_t kPoolBytes = uint64_t{64} << 20;
  auto manager = OrDie(MakeManagerSide(ManagerKind::kInProcess, model->layout(), kPoolBytes, ""));
  const auto harness = OrDie(StartHarness(*model, std::move(manager), 64));
  const auto decode = [&] { OrDie(harness->Run({.context = kPrompt, .decode_steps = kSteps})); };
  decode();  // warm-up
  kernels::ThreadPool alone(1);
  std::vector<double> shares;
  for (int turn = 0; turn < absl::GetFlag(FLAGS_turns); ++turn) {
    const double bandwidth = ReadBandwidth(alone, CpuSeconds);
    const double step = FastestSeconds(1, decode, CpuSeconds) / (kSteps + 1);
    shares.push_back(StepBytes(model->config()) / bandwidth / step);
    std::printf("reading %.1f GB/s, a step %.2f ms: %.2f of it\n", bandwidth * 1e-9, step * 1e3,
                shares.back());
  }
  std::sort(shares.begin(), shares.end());
  const double median = shares[shares.size() / 2], least = absl::GetFlag(FLAGS_least);
  std::printf(
      "decode reads weights at %.2f of the speed of reading alone, and %.2f must be reached\n",
      median, least);
  return median < least ? 1 : 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Fails if decode takes twice the time that it should take.\n"
      "usage: decode_gate --model=MODEL [flags]");
  absl::ParseCommandLine(argc, argv);
  if (absl::GetFlag(FLAGS_model).empty() || absl::GetFlag(FLAGS_turns) < 1) {
    std::fprintf(stderr,
                 "decode_gate: --model is required (deploy/fetch_model.sh prints one), and --turns "
                 "is at least 1\n");
    return 2;
  }
  return folio::bench::Main();
}
