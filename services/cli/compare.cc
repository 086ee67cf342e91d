// folioctl compare runs one prompt under several cache settings at the same time.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "services/cli/answer.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/format.h"
#include "services/cli/live_lines.h"
#include "services/cli/options.h"
#include "services/cli/table.h"
#include "services/client/message_json.h"

namespace folio::cli {
namespace {

struct CompareFlags {
  PromptFlags prompt;
  SamplingFlags sampling;
  LengthFlags length;
  std::vector<std::string> runs;
  std::string expect;
  std::string mode = "pipelined";
  int layers = 6;
};

struct Run {
  std::string name;
  folio::v1::GenerateRequest request;
  Answer answer;
  absl::Status status;
};

absl::StatusOr<folio::v1::CacheOptions> ParseRun(const std::string& text, const std::string& mode) {
  CacheFlags flags;
  flags.mode = mode;
  auto cache = flags.With(text).ToProto();
  if (cache.ok()) return cache;
  return UsageError(absl::StrCat("--run ", text, ": ", cache.status().message()));
}

// Runs them all, with a live line each unless the output is JSON.
void RunAll(client::Client& client, const Context& context, std::vector<Run>& runs) {
  LiveLines lines(context.terminal);
  for (const Run& run : runs) lines.Add(run.name);
  const auto show = [&](size_t line, absl::string_view text) {
    if (!context.structured()) lines.Show(line, text);
  };
  const client::CallOptions options = context.Call();
  const Interrupts::Scope scope(&context.terminal.interrupts,
                                [cancellation = options.cancellation] { cancellation.Cancel(); });
  std::vector<std::thread> threads;
  for (size_t i = 0; i < runs.size(); ++i) {
    threads.emplace_back([&, i] {
      Run& run = runs[i];
      show(i, "waiting");
      run.status = client.Generate(
          run.request,
          [&](const folio::v1::GenerateResponse& event) {
            run.answer.Add(event);
            if (event.has_prefill()) {
              const auto& progress = event.prefill();
              show(i, progress.queue_position() > 0
                          ? absl::StrCat("waiting for room, at place ", progress.queue_position())
                          : absl::StrCat("prefill ", FormatCount(progress.done_tokens()), " of ",
                                         FormatCount(progress.total_tokens()), " tokens"));
            } else if (event.has_chunk()) {
              show(i, QuotePiece(run.answer.text));
            }
            return true;
          },
          options);
      if (context.structured()) return;
      lines.Finish(i, run.status.ok() ? QuotePiece(run.answer.text)
                                      : absl::StrCat(absl::StatusCodeToString(run.status.code()),
                                                     ": ", run.status.message()));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

bool IsRight(const Run& run, const CompareFlags& flags) {
  return run.answer.text.find(flags.expect) != std::string::npos;
}

// The JSON has the keys `expect` and `runs`. A run has `run`, `policy`, `budget_tokens`, `text`,
// and `finished` as in the protocol. It has `right` where an answer was expected, and `error` alone
// where the call failed.
nlohmann::ordered_json ComparisonJson(const std::vector<Run>& runs, const CompareFlags& flags) {
  auto all = nlohmann::ordered_json::array();
  for (const Run& run : runs) {
    nlohmann::ordered_json one = {{"run", run.name},
                                  {"policy", PolicyName(run.request.cache())},
                                  {"budget_tokens", run.request.cache().budget_tokens()},
                                  {"text", run.answer.text}};
    if (run.status.ok()) {
      if (!flags.expect.empty()) one["right"] = IsRight(run, flags);
      one["finished"] = nlohmann::ordered_json::parse(client::MessageJson(run.answer.finished));
    } else {
      one["error"] = {{"code", absl::StatusCodeToString(run.status.code())},
                      {"message", std::string(run.status.message())}};
    }
    all.push_back(std::move(one));
  }
  nlohmann::ordered_json json;
  if (!flags.expect.empty()) json["expect"] = flags.expect;
  json["runs"] = std::move(all);
  return json;
}

std::string RenderComparison(const std::vector<Run>& runs, const CompareFlags& flags,
                             const Terminal& terminal) {
  Table table({{"policy"},
               {"answer"},
               {"first token", Table::Align::kRight},
               {"decode", Table::Align::kRight},
               {"resident tokens", Table::Align::kRight},
               {"KV", Table::Align::kRight},
               {"pages held", Table::Align::kRight},
               {"peak", Table::Align::kRight},
               {"pages evicted", Table::Align::kRight}});
  for (const Run& run : runs) {
    if (!run.status.ok()) continue;
    const auto& cache = run.answer.finished.cache();
    table.Row({run.name,
               flags.expect.empty()  ? "-"
               : IsRight(run, flags) ? "right"
                                     : "wrong",
               FormatSeconds(run.answer.finished.usage().time_to_first_token()),
               FormatRate(DecodeRate(run.answer.finished.usage())),
               FormatCount(cache.resident_tokens()), FormatBytes(cache.resident_bytes()),
               FormatCount(cache.held_pages()), FormatCount(cache.peak_held_pages()),
               FormatCount(cache.evicted_pages())});
  }
  return table.Render(terminal);
}

absl::Status ShowMaps(client::Client& client, const Context& context, const CompareFlags& flags,
                      const std::vector<Run>& runs) {
  const auto model = client.GetModel(context.Call());
  if (!model.ok()) return model.status();
  std::ostream& out = context.terminal.out;
  out << "\nThe tokens that each policy kept:\n";
  for (const Run& run : runs) {
    if (!run.status.ok()) continue;
    const auto kept = KeptAtEnd(run.answer, model->layout());
    if (!kept.ok()) return kept.status();
    MapOptions options;
    options.prompt_tokens = run.answer.finished.usage().prompt_tokens();
    options.length = client::LengthAtEnd(run.answer.finished.usage());
    options.max_rows = flags.layers;
    options.scale = &run == &runs.back();
    out << "\n"
        << context.terminal.Bold(run.name) << "\n"
        << RenderMap(*kept, {}, options, context.terminal);
  }
  return absl::OkStatus();
}

absl::Status Compare(const CompareFlags& flags, Context& context) {
  const auto input = flags.prompt.Read(context.terminal);
  if (!input.ok()) return input.status();
  std::vector<Run> runs;
  for (const std::string& text : flags.runs) {
    const auto cache = ParseRun(text, flags.mode);
    if (!cache.ok()) return cache.status();
    Run& run = runs.emplace_back();
    run.name = text;
    *run.request.mutable_input() = *input;
    *run.request.mutable_cache() = *cache;
    *run.request.mutable_sampling() = flags.sampling.ToProto();
    flags.length.Fill(&run.request);
    run.request.set_label(text);
    run.request.set_report_evictions(true);
  }
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  RunAll(**client, context, runs);

  absl::Status status;
  for (const Run& run : runs) status.Update(run.status);
  if (context.structured()) {
    absl::Status printed = context.Print(ComparisonJson(runs, flags));
    printed.Update(status);
    return printed;
  }
  if (absl::IsCancelled(status)) return status;
  context.terminal.out << "\n" << RenderComparison(runs, flags, context.terminal);
  status.Update(ShowMaps(**client, context, flags, runs));
  return status;
}

}  // namespace

void AddCompare(CLI::App& root, Context& context) {
  auto flags = std::make_shared<CompareFlags>();
  CLI::App* command =
      AddCommand(root, "compare", "One prompt under several cache policies at once (worker)",
                 "  folioctl compare --file report.txt --run full --run paged_eviction:512 "
                 "--run streaming_llm:512\n"
                 "  folioctl compare --file report.txt --run kv_crush:key_diff,share=0.5:512 --run "
                 "random:0.25\n"
                 "  folioctl compare --chat \"What is 17 + 4?\" --expect 21 --run full --run "
                 "paged_eviction:64");
  flags->prompt.Add(*command);
  flags->sampling.Add(*command);
  flags->length.Add(*command);
  command
      ->add_option("--run", flags->runs,
                   "full, or POLICY:BUDGET, the budget in tokens or as a share; once per policy")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required();
  command->add_option("--expect", flags->expect, "An answer with this text in it is right");
  command->add_option("--mode", flags->mode, "When evictions take effect: pipelined or synchronous")
      ->check(CLI::IsMember({"pipelined", "synchronous"}))
      ->capture_default_str();
  command->add_option("--layers", flags->layers, "Layers in each map (0: all)")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  SetAction(command, Compare, flags, context);
}

}  // namespace folio::cli
