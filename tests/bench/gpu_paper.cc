// The setting of the paper on PagedEviction: see gpu_costs.h.
#include <algorithm>
#include <map>

#include "tests/bench/gpu_costs.h"

namespace folio::bench {
namespace {

// The paper's own, tokens per second: an A100, PyTorch's eager mode.
const std::map<uint32_t, double>& Published() {
  static const auto* published = new std::map<uint32_t, double>{{0, 2200}, {1024, 3020}};
  return *published;
}

// Lengths that are measured: the first, the last, and some between.
std::vector<uint32_t> Lengths(uint32_t first, uint32_t last) {
  if (last <= first) return {last};
  std::vector<uint32_t> lengths;
  constexpr uint32_t kParts = 3;
  for (uint32_t i = 0; i <= kParts; ++i) {
    const uint32_t length = first + (last - first) / kParts * i;
    lengths.push_back(i == kParts ? last : length / 16 * 16);
  }
  return lengths;
}

// Seconds of a step, by resident tokens; in between a straight line.
double StepAt(const std::map<double, double>& steps, double resident) {
  const auto above = steps.lower_bound(resident);
  if (above == steps.end()) return steps.rbegin()->second;
  if (above == steps.begin()) return above->second;
  const auto below = std::prev(above);
  const double part = (resident - below->first) / (above->first - below->first);
  return below->second + part * (above->second - below->second);
}

absl::StatusOr<double> PromptSeconds(const SpeedRun& run, const PaperSetting& setting) {
  const auto harness = run.model.Serve(Prompts::kComputed);
  double seconds = 0;
  for (int i = 0; i < 2; ++i) {  // the first warms up
    const auto measured = harness->Run({.sequences = setting.sequences,
                                        .context = setting.input,
                                        .decode_steps = 2,
                                        .spare_tokens = 2 * setting.sequences + 64});
    if (!measured.ok()) return measured.status();
    seconds = measured->prompts_seconds;
  }
  return seconds;
}

}  // namespace

void RunPaper(const SpeedRun& run, const PaperSetting& setting) {
  absl::StatusOr<double> prompts = 0;
  if (!run.late()) prompts = PromptSeconds(run, setting);
  const auto harness = run.model.Serve(Prompts::kSynthetic);
  for (const uint32_t budget : setting.budgets) {
    Json json = run.Record("paper");
    json["sequences"] = setting.sequences;
    json["input"] = setting.input;
    json["output"] = setting.output;
    json["budget"] = budget;
    const auto published = Published().find(budget);
    json["published_tokens_s"] = published == Published().end() ? Json() : Json(published->second);
    const uint32_t longest = setting.input + setting.output;
    const uint32_t last = budget == 0 ? longest : std::min(budget, longest);
    const uint32_t room = run.model.config().context - 2 * (run.steps + run.warm_up);
    std::map<double, double> steps;
    absl::Status failed = prompts.status();
    double count = 0;
    for (const uint32_t length : Lengths(setting.input, std::min(last, room))) {
      // A prompt of less than the input is one that a smaller budget has cut.
      const DecodeCell cell = {setting.sequences, std::max(length, setting.input), budget};
      if (!failed.ok() || run.late(run.decodes, cell.tokens())) break;
      const auto measured = MeasureDecode(run, *harness, cell);
      if (!measured.ok()) {
        failed = measured.status();
        break;
      }
      count += measured->steps;
      steps[measured->resident_tokens / setting.sequences] =
          measured->decode_seconds / measured->steps;
    }
    if (failed.ok() && steps.empty()) {
      run.LeaveOut(json);
      continue;
    }
    if (!failed.ok()) {
      json["state"] = "failed";
      json["detail"] = std::string(failed.message());
      run.put(json);
      continue;
    }
    double decode = 0;
    constexpr uint32_t kStride = 16;
    for (uint32_t at = 0; at < setting.output; at += kStride) {
      decode += kStride * StepAt(steps, std::min<double>(setting.input + at, last));
    }
    json["state"] = "measured";
    json["steps_run"] = count;
    json["lengths_measured"] = steps.size();
    json["prompts_ms"] = *prompts * 1e3;
    json["decode_ms"] = decode * 1e3;
    const double seconds = *prompts + decode;
    json["output_tokens_s"] = double{1} * setting.sequences * setting.output / seconds;
    json["total_tokens_s"] =
        double{1} * setting.sequences * (setting.output + setting.input) / seconds;
    run.put(json);
  }
}

}  // namespace folio::bench
