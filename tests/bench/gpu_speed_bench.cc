// The whole worker on a GPU with models of true shapes and random weights, against the limits that
// are measured in the same run. A JSON object per line: first the device, then each result, as soon
// as it is there. See tests/gpu/README.md.
//   gpu_speed_bench --models=1b,3b,8b --seconds=200
// Exits with 77 where there is no GPU.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/types.h"
#include "tests/bench/gpu_costs.h"
#include "tests/bench/gpu_decode.h"
#include "tests/bench/gpu_products.h"
#include "tests/bench/or_die.h"
#include "tests/gpu/need_device.h"

using Texts = std::vector<std::string>;
ABSL_FLAG(Texts, models, (Texts{"1b", "3b", "8b"}), "shapes: 1b, 3b, 8b, tiny");
ABSL_FLAG(
    Texts, computes, (Texts{"bfloat16"}),
    "arithmetic of the layers' products, for each model in turn: bfloat16, or with --cells fp8");
ABSL_FLAG(double, seconds, 200, "it ends within about so many; the models share them evenly");
ABSL_FLAG(Texts, batches, (Texts{"64", "16", "128", "1"}),
          "sequences decoding together, the most important first, as of all lists");
ABSL_FLAG(Texts, contexts, (Texts{"8192", "1024", "32768"}), "their prompts' tokens");
ABSL_FLAG(Texts, budgets, (Texts{"1024", "0", "4096", "512"}), "0 is the full cache");
ABSL_FLAG(
    Texts, cells, (Texts{}),
    "decode cells that are measured instead of everything else, such as 64x1024,64x8192/1024");
ABSL_FLAG(uint32_t, steps, 32, "decode steps measured of a cell");
ABSL_FLAG(uint32_t, warm_up, 16, "decode steps before these");
ABSL_FLAG(uint32_t, prompt, 8192, "tokens of the prompt that is computed");
ABSL_FLAG(bool, prompt_beside_cells, false, "computes the prompt too where --cells are given");
ABSL_FLAG(uint32_t, budget, 1024, "for the costs of eviction");
ABSL_FLAG(uint32_t, paper_input, 1024, "of the paper's setting, which the first model runs");
ABSL_FLAG(uint32_t, paper_output, 8192, "tokens of each sequence");
ABSL_FLAG(uint32_t, paper_sequences, 64, "sequences");
ABSL_FLAG(Texts, paper_budgets, (Texts{"0", "1024", "512", "256", "2048", "4096"}), "budgets");
ABSL_FLAG(uint32_t, max_rows, 8192, "of a step; folio-worker has as many by default");
ABSL_FLAG(uint64_t, pool_mib, 0, "page memory at most; 0: what is left");
ABSL_FLAG(uint32_t, copy_mib, 2048, "what is copied to measure the bandwidth");
ABSL_FLAG(Texts, product_rows, (Texts{"1", "2", "4", "8", "16", "32", "64", "128"}),
          "rows of steps whose products are measured alone");
ABSL_FLAG(uint32_t, product_side, 8192, "of the product that measures the peak");

namespace folio::bench {
namespace {

using kernels::cuda::DataType;

constexpr size_t kFirstCells = 10;  // of the grid, before the paper's setting and the peer

uint32_t Number(const std::string& text) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  std::fprintf(stderr, "gpu_speed_bench: '%s' is no number\n", text.c_str());
  std::exit(2);
}

std::vector<uint32_t> Numbers(const Texts& texts) {
  std::vector<uint32_t> numbers;
  for (const std::string& text : texts) numbers.push_back(Number(text));
  return numbers;
}

// BATCHxCONTEXT, with /BUDGET where there is one.
std::vector<DecodeCell> Cells(const Texts& texts) {
  std::vector<DecodeCell> cells;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('/', 1));
    const std::pair<std::string, std::string> size =
        absl::StrSplit(parts.first, absl::MaxSplits('x', 1));
    cells.push_back(
        {Number(size.first), Number(size.second), parts.second.empty() ? 0 : Number(parts.second)});
  }
  return cells;
}

void Put(const Json& json) {
  std::printf("%s\n", json.dump().c_str());
  std::fflush(stdout);
}

// The cell that eviction is judged by, first of the grid.
DecodeCell Judged() {
  return {Numbers(absl::GetFlag(FLAGS_batches)).front(),
          Numbers(absl::GetFlag(FLAGS_contexts)).front(), absl::GetFlag(FLAGS_budget)};
}

// Those whose numbers come first in their lists come first. The time may not last for all.
std::vector<DecodeCell> Grid() {
  const auto batches = Numbers(absl::GetFlag(FLAGS_batches));
  const auto contexts = Numbers(absl::GetFlag(FLAGS_contexts));
  const auto budgets = Numbers(absl::GetFlag(FLAGS_budgets));
  std::vector<DecodeCell> cells;
  for (size_t rank = 0; rank < batches.size() + contexts.size() + budgets.size(); ++rank) {
    for (size_t context = 0; context < contexts.size(); ++context) {
      for (size_t batch = 0; batch < batches.size(); ++batch) {
        const size_t budget = rank - context - batch;
        if (context + batch > rank || budget >= budgets.size()) continue;
        cells.push_back({batches[batch], contexts[context], budgets[budget]});
      }
    }
  }
  return cells;
}

std::vector<DecodeCell> PeerCells() {
  std::vector<DecodeCell> cells;
  const auto contexts = Numbers(absl::GetFlag(FLAGS_contexts));
  for (const uint32_t context : {contexts.front(), absl::GetFlag(FLAGS_budget)}) {
    for (const uint32_t batch : Numbers(absl::GetFlag(FLAGS_batches))) {
      cells.push_back({batch, context, 0});
    }
  }
  return cells;
}

void PutModel(const std::string& name, absl::string_view state, absl::string_view detail) {
  Put({{"record", "model"}, {"model", name}, {"state", state}, {"detail", detail}});
}

// The most tokens of a sequence.
uint32_t Longest(const std::vector<DecodeCell>& cells) {
  uint32_t longest = 0;
  for (const DecodeCell& cell : cells) longest = std::max(longest, cell.context);
  if (absl::GetFlag(FLAGS_prompt_beside_cells)) {
    longest = std::max(longest, absl::GetFlag(FLAGS_prompt));
  }
  if (!cells.empty()) return longest;
  const auto contexts = Numbers(absl::GetFlag(FLAGS_contexts));
  return std::max({*std::max_element(contexts.begin(), contexts.end()), absl::GetFlag(FLAGS_prompt),
                   absl::GetFlag(FLAGS_paper_input) + absl::GetFlag(FLAGS_paper_output)});
}

// The type of the layers' matrices. The peer's plain loop, beside a whole grid, knows bf16 alone.
DataType TypeOf(const std::string& compute) {
  if (compute == "bfloat16") return DataType::kBf16;
  if (compute == "fp8" && !absl::GetFlag(FLAGS_cells).empty()) return DataType::kE4M3;
  OrDie(absl::InvalidArgumentError(
      absl::StrCat("--computes=", compute, ": give bfloat16, or with --cells fp8")));
  return DataType::kBf16;
}

// `making` is how long the slowest model so far took to be made.
void RunModel(const std::string& name, DataType type, bool first, const GpuLimits& limits,
              absl::Time deadline, absl::Duration* making) {
  const std::vector<DecodeCell> cells = Cells(absl::GetFlag(FLAGS_cells));
  // Room for what a sequence may still say while the others are admitted.
  const uint32_t longest = Longest(cells);
  const absl::Time start = absl::Now();
  if (start + 2 * *making >= deadline) return PutModel(name, "not run", "the time was up");
  const uint32_t spare = 8 * (absl::GetFlag(FLAGS_steps) + absl::GetFlag(FLAGS_warm_up)) + 4352;
  auto model = GpuModel::Make(OrDie(NamedShape(name, longest + spare)),
                              {.pool_bytes = absl::GetFlag(FLAGS_pool_mib) << 20,
                               .max_rows = absl::GetFlag(FLAGS_max_rows),
                               .type = type});
  if (!model.ok()) {
    const bool unserved = absl::IsUnimplemented(model.status());  // FP8, by this GPU
    return PutModel(name, unserved ? "not served" : "failed", model.status().message());
  }
  *making = std::max(*making, absl::Now() - start);
  SpeedRun run{**model, limits, deadline, absl::GetFlag(FLAGS_steps), absl::GetFlag(FLAGS_warm_up),
               Put};
  if (!cells.empty()) {
    if (absl::GetFlag(FLAGS_prompt_beside_cells)) RunPrefill(run, absl::GetFlag(FLAGS_prompt), 0);
    RunGrid(run, cells);
    return;
  }
  RunPrefill(run, absl::GetFlag(FLAGS_prompt), 0);
  RunPrefill(run, absl::GetFlag(FLAGS_prompt), absl::GetFlag(FLAGS_budget));
  RunCosts(run, Judged());
  for (const uint32_t rows : Numbers(absl::GetFlag(FLAGS_product_rows))) RunProducts(run, rows);
  const std::vector<DecodeCell> grid = Grid();
  const auto first_cells = static_cast<ptrdiff_t>(std::min(grid.size(), kFirstCells));
  RunGrid(run, {grid.begin(), grid.begin() + first_cells});
  if (first) {
    RunPaper(run, {.sequences = absl::GetFlag(FLAGS_paper_sequences),
                   .input = absl::GetFlag(FLAGS_paper_input),
                   .output = absl::GetFlag(FLAGS_paper_output),
                   .budgets = Numbers(absl::GetFlag(FLAGS_paper_budgets))});
  }
  RunPeer(run, PeerCells());
  RunGrid(run, {grid.begin() + first_cells, grid.end()});
}

int Main() {
  if (const int code = testing::NeedDevice(); code != 0) return code;
  const auto device = kernels::cuda::UseDevice(0);
  OrDie(device.status());
  const absl::Time end = absl::Now() + absl::Seconds(absl::GetFlag(FLAGS_seconds));
  const GpuLimits limits = OrDie(
      MeasureGpu(size_t{absl::GetFlag(FLAGS_copy_mib)} << 20, absl::GetFlag(FLAGS_product_side)));
  Put({{"record", "device"},
       {"name", device->name},
       {"total_bytes", device->total_bytes},
       {"copy_gb_s", limits.copy_bytes * 1e-9},
       {"product_tflops", limits.flops * 1e-12}});
  const Texts models = absl::GetFlag(FLAGS_models);
  const Texts computes = absl::GetFlag(FLAGS_computes);
  absl::Duration making;
  const size_t runs = models.size() * computes.size();
  for (size_t i = 0; i < runs; ++i) {
    const absl::Duration share = (end - absl::Now()) / static_cast<int64_t>(runs - i);
    RunModel(models[i / computes.size()], TypeOf(computes[i % computes.size()]), i == 0, limits,
             absl::Now() + share, &making);
  }
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Speed of the whole worker on a GPU against its limits; JSON lines.\n"
      "usage: gpu_speed_bench [flags]");
  absl::ParseCommandLine(argc, argv);
  return folio::bench::Main();
}
