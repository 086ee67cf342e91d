// These functions show the results of folioctl bench, as tables for people and as JSON for
// programs.
#ifndef FOLIO_SERVICES_CLI_BENCH_REPORT_H_
#define FOLIO_SERVICES_CLI_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "folio/v1/inference.pb.h"
#include "services/cli/bench_flags.h"
#include "services/cli/load/runner.h"
#include "services/cli/terminal.h"

namespace folio::cli {

// A result and what it belongs to.
struct BenchReport {
  std::vector<std::string> addresses;
  folio::v1::GetModelResponse model;  // as the first worker says
  BenchPlan plan;
  std::string date;  // when it began, in UTC
  bool interrupted = false;
  load::RunResult result;
};

std::string RenderBench(const BenchReport& report, const Terminal& terminal);

// An object with the keys folioctl, date, workers, model, settings and results. Times are
// milliseconds, and rates are per second. docs/load.md describes it.
std::string BenchJson(const BenchReport& report);

// "3 of 100 requests failed; the first: RESOURCE_EXHAUSTED: the pool is full".
std::string DescribeFailures(const load::Tally& tally);

// One line about a run that lasts, "45 of 100 answered, 16 running, 812.3/s output tokens".
std::string DescribeProgress(const BenchPlan& plan, const load::RunResult& result);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_BENCH_REPORT_H_
