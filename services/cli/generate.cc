// folioctl generate gives one answer to one prompt.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/cli/answer.h"
#include "services/cli/command.h"
#include "services/cli/options.h"
#include "services/cli/rule_flags.h"

namespace folio::cli {
namespace {

struct GenerateFlags {
  PromptFlags prompt;
  CacheFlags cache;
  SamplingFlags sampling;
  LengthFlags length;
  RuleFlags rule;
  std::optional<uint32_t> logprobs;
  bool stats = false;
  bool map = false;
  bool no_replay = false;
};

absl::Status ShowLogprobs(client::Client& client, const Context& context, const Answer& answer) {
  std::vector<std::string> pieces;
  for (const auto& token : answer.logprobs) {
    absl::StatusOr<std::string> text =
        client.Detokenize({token.token()}, /*skip_special=*/false, context.Call());
    if (!text.ok()) return text.status();
    pieces.push_back(*text);
  }
  context.terminal.out << "\n" << RenderLogprobs(answer.logprobs, pieces, context.terminal);
  return absl::OkStatus();
}

absl::Status ShowMap(client::Client& client, const Context& context, const Answer& answer) {
  const auto model = client.GetModel(context.Call());
  if (!model.ok()) return model.status();
  const auto kept = KeptAtEnd(answer, model->layout());
  if (!kept.ok()) return kept.status();
  MapOptions options;
  options.prompt_tokens = answer.finished.usage().prompt_tokens();
  options.length = client::LengthAtEnd(answer.finished.usage());
  context.terminal.out << "\n" << RenderMap(*kept, {}, options, context.terminal);
  return absl::OkStatus();
}

absl::Status Generate(const GenerateFlags& flags, Context& context) {
  const auto input = flags.prompt.Read(context.terminal);
  if (!input.ok()) return input.status();
  const auto cache = flags.cache.ToProto();
  if (!cache.ok()) return cache.status();
  folio::v1::GenerateRequest request;
  *request.mutable_input() = *input;
  *request.mutable_cache() = *cache;
  *request.mutable_sampling() = flags.sampling.ToProto();
  flags.length.Fill(&request);
  if (absl::Status status = flags.rule.Fill(&request); !status.ok()) return status;
  if (flags.logprobs.has_value()) request.set_logprobs(*flags.logprobs);
  request.set_report_evictions(flags.map);

  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  client::CallOptions call = context.Call();
  call.replay = !flags.no_replay;
  Answer answer;
  absl::Status status =
      StreamAnswer(**client, request, call, context.output, context.terminal, &answer);
  if (!status.ok() || context.structured()) return status;
  if (flags.logprobs.has_value()) status = ShowLogprobs(**client, context, answer);
  if (status.ok() && flags.stats) {
    context.terminal.out << "\n" << RenderStats(answer, context.terminal);
  }
  if (status.ok() && flags.map) status = ShowMap(**client, context, answer);
  return status;
}

}  // namespace

void AddGenerate(CLI::App& root, Context& context) {
  auto flags = std::make_shared<GenerateFlags>();
  CLI::App* command = AddCommand(
      root, "generate", "Continue a text (worker)",
      "  folioctl generate --chat \"Why is the sea salty?\" --stats\n"
      "  folioctl generate --file report.txt --policy paged_eviction --budget 512 --map\n"
      "  echo 'Once upon a time' | folioctl generate - --max_tokens 50 --temperature 0.8\n"
      "  folioctl generate \"The capital of France is\" --logprobs 5 --max_tokens 3\n"
      "  folioctl generate --chat \"Name a fruit\" --regex '[a-z]{3,12}'");
  flags->prompt.Add(*command);
  flags->cache.Add(*command);
  flags->sampling.Add(*command);
  flags->length.Add(*command);
  flags->rule.Add(*command);
  command->add_option("--logprobs", flags->logprobs,
                      "Show each token's log-probability, and the N likeliest (at most 20)");
  command->add_flag("--stats", flags->stats, "Show times, tokens and pages after the answer");
  command->add_flag("--map", flags->map, "Show what each layer kept of the text");
  command->add_flag("--no_replay", flags->no_replay,
                    "Fail where the sequence is gone, for example with its manager, instead of\n"
                    "having it computed again");
  SetAction(command, Generate, flags, context);
}

}  // namespace folio::cli
