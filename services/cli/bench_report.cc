#include "services/cli/bench_report.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "services/cli/format.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

using load::Histogram;
using load::Tally;

// Above this the client itself has slowed the run, or the machine it runs on.
constexpr double kLate = 0.01;

double PerSecond(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

std::string Load(const BenchPlan& plan) {
  std::string text =
      plan.run.clients > 0
          ? absl::StrCat(FormatCount(plan.run.clients, "client"), " with a request at a time")
          : absl::StrCat(plan.run.rate, " requests per second, burstiness ", plan.run.burstiness);
  absl::StrAppend(&text, "; prompts ", plan.requests.prompt.text(), ", answers ",
                  plan.requests.output.text(), " tokens");
  return text;
}

std::string Mix(const std::vector<load::Choice>& mix) {
  double sum = 0;
  for (const load::Choice& choice : mix) sum += choice.weight;
  return absl::StrJoin(mix, "; ", [&](std::string* out, const load::Choice& choice) {
    absl::StrAppend(out, DescribeCache(choice.cache));
    if (mix.size() > 1) absl::StrAppendFormat(out, " (%.0f %%)", 100 * choice.weight / sum);
  });
}

std::string Ends(const BenchReport& report) {
  const Tally& all = report.result.all;
  std::string text = absl::StrCat(FormatCount(all.answered), " answered");
  for (const auto& [code, failure] : all.failures) {
    absl::StrAppend(&text, ", ", FormatCount(failure.count), " ", absl::StatusCodeToString(code));
  }
  if (all.cut > 0) absl::StrAppend(&text, ", ", FormatCount(all.cut), " cut off by Ctrl-C");
  return text;
}

std::string TokenRate(uint64_t tokens, double seconds) {
  return absl::StrCat(FormatRate(PerSecond(static_cast<double>(tokens), seconds)), ", ",
                      FormatCount(tokens), " in all");
}

void TimesRow(const std::string& name, const Histogram& times, Table* table) {
  if (times.count() == 0) {
    table->Row({name, "-", "-", "-", "-", "-"});
    return;
  }
  table->Row({name, FormatSeconds(times.mean()), FormatSeconds(times.Percentile(0.5)),
              FormatSeconds(times.Percentile(0.9)), FormatSeconds(times.Percentile(0.99)),
              FormatSeconds(times.max())});
}

std::vector<Table::Column> TimesColumns(std::string first) {
  return {{std::move(first)}, {"mean", kRight}, {"p50", kRight},
          {"p90", kRight},    {"p99", kRight},  {"max", kRight}};
}

std::string RenderFacts(const BenchReport& report, const Terminal& terminal) {
  const load::RunResult& result = report.result;
  const Tally& all = result.all;
  const auto& model = report.model;
  const double seconds = result.seconds;
  Table facts = Table::Facts();
  facts.Row({"model", absl::StrCat(model.layout().model(), ", ", model.compute(), ", ",
                                   model.device(), " (", model.kernels(), ")")});
  facts.Row({"load", Load(report.plan)});
  facts.Row({"policy", Mix(report.plan.requests.mix)});
  facts.Row({"requests", Ends(report)});
  facts.Row({"waited in line", FormatCount(all.waited)});
  facts.Row({"resumed elsewhere", FormatCount(all.resumed)});
  facts.Row({"running at once", absl::StrCat(FormatCount(result.most_running), " at most")});
  facts.Row({"duration", FormatSeconds(seconds)});
  facts.Row({"answers", FormatRate(PerSecond(static_cast<double>(all.answered), seconds))});
  facts.Row({"prompt tokens", TokenRate(all.prompt_tokens, seconds)});
  facts.Row({"output tokens", TokenRate(all.output_tokens, seconds)});
  if (result.full_seconds > 0) {
    facts.Row({"while all clients decode",
               absl::StrCat(FormatRate(PerSecond(static_cast<double>(result.full_tokens),
                                                 result.full_seconds)),
                            ", for ", FormatSeconds(result.full_seconds))});
  }
  const load::Goals& goals = report.plan.run.goals;
  if (!goals.empty()) {
    const double share =
        PerSecond(100 * static_cast<double>(all.good), static_cast<double>(all.counted()));
    facts.Row(
        {"goodput", absl::StrFormat("%.1f %%, %s, of %s", share,
                                    FormatRate(PerSecond(static_cast<double>(all.good), seconds)),
                                    goals.text())});
  }
  return facts.Render(terminal);
}

}  // namespace

std::string RenderBench(const BenchReport& report, const Terminal& terminal) {
  const Tally& all = report.result.all;
  std::string text = RenderFacts(report, terminal);
  Table times(TimesColumns(""));
  TimesRow("time to first token", all.first, &times);
  TimesRow("time between tokens", all.gaps, &times);
  TimesRow("time per output token", all.per_token, &times);
  TimesRow("end to end", all.total, &times);
  absl::StrAppend(&text, "\n", times.Render(terminal));
  const std::vector<load::Choice>& mix = report.plan.requests.mix;
  if (mix.size() > 1) {
    Table rows({{"policy"},
                {"answered", kRight},
                {"first token, p50", kRight},
                {"between tokens, p50", kRight},
                {"end to end, p50", kRight}});
    for (size_t i = 0; i < mix.size(); ++i) {
      const Tally& one = report.result.by_choice[i];
      rows.Row({mix[i].name, FormatCount(one.answered), FormatSeconds(one.first.Percentile(0.5)),
                FormatSeconds(one.gaps.Percentile(0.5)), FormatSeconds(one.total.Percentile(0.5))});
    }
    absl::StrAppend(&text, "\n", rows.Render(terminal));
  }
  // The clients of a closed loop may all begin at once.
  if (report.plan.run.clients == 0 && all.late.Percentile(0.99) > kLate) {
    absl::StrAppend(&text, "\nfolioctl itself was late: 1 % of the requests were sent ",
                    FormatSeconds(all.late.Percentile(0.99)),
                    " or more after they were due. Run it on a machine with more free cores.\n");
  }
  return text;
}

std::string DescribeFailures(const Tally& tally) {
  const auto& [code, failure] = *tally.failures.begin();
  return absl::StrCat(FormatCount(tally.failed()), " of ", FormatCount(tally.counted()),
                      " requests failed; the first: ", absl::StatusCodeToString(code), ": ",
                      failure.first);
}

std::string DescribeProgress(const BenchPlan& plan, const load::RunResult& result) {
  std::string text = FormatCount(result.all.answered);
  if (plan.run.requests != std::numeric_limits<uint64_t>::max()) {
    absl::StrAppend(&text, " of ", FormatCount(plan.run.requests));
  }
  absl::StrAppend(&text, " answered, ", FormatCount(result.running), " running");
  if (result.all.failed() > 0)
    absl::StrAppend(&text, ", ", FormatCount(result.all.failed()), " failed");
  const double rate = PerSecond(static_cast<double>(result.tokens), result.seconds);
  return absl::StrCat(text, ", ", FormatRate(rate), " output tokens, ",
                      FormatSeconds(result.seconds));
}

}  // namespace folio::cli
