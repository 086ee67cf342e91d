// LoadFlags and ResultsFlags are the flags of folioctl bench, and BenchPlan is what they ask for.
#ifndef FOLIO_SERVICES_CLI_BENCH_FLAGS_H_
#define FOLIO_SERVICES_CLI_BENCH_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/cli/load/requests.h"
#include "services/cli/load/runner.h"
#include "services/cli/options.h"

namespace folio::cli {

// The requests lack what only a worker can tell, which are the context and the tokens.
struct BenchPlan {
  load::RequestPlan requests;
  load::RunPlan run;
  uint64_t warmup = 0;
  size_t connections = 0;
};

// A setting of --policy in a mix, "POLICY[:BUDGET][*WEIGHT]".
absl::StatusOr<load::Choice> ParseChoice(const std::string& text, const CacheFlags& cache);

struct LoadFlags {
  std::optional<uint32_t> concurrency;
  std::optional<double> request_rate;
  double burstiness = 1;
  std::optional<uint64_t> requests;
  std::string duration;
  uint64_t warmup = 0;
  std::string prompt_tokens = "512";
  std::string output_tokens = "128";
  bool stop_at_eos = false;
  std::string resume = "30s";
  uint32_t connections = 8;

  void Add(CLI::App& command);
  // A usage error that names the flag. `cache` has the flags that --policy does not set itself.
  absl::StatusOr<BenchPlan> ToPlan(const CacheFlags& cache, const SamplingFlags& sampling) const;
};

struct ResultsFlags {
  std::string goodput;
  std::string json;
  bool allow_failures = false;

  void Add(CLI::App& command);
  // Sets the goals. A usage error if they are not understood.
  absl::Status Fill(BenchPlan* plan) const;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_BENCH_FLAGS_H_
