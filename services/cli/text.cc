// folioctl score, tokenize and detokenize show how the model reads a given text.
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/cli/answer.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/options.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

struct ScoreFlags {
  PromptFlags prompt;
  CacheFlags cache;
  std::string continuation;
  uint32_t top = 0;
};

absl::Status Score(const ScoreFlags& flags, Context& context) {
  const auto input = flags.prompt.Read(context.terminal);
  if (!input.ok()) return input.status();
  const auto cache = flags.cache.ToProto();
  if (!cache.ok()) return cache.status();
  folio::v1::ScoreRequest request;
  *request.mutable_input() = *input;
  *request.mutable_continuation() = client::Text(flags.continuation);
  *request.mutable_cache() = *cache;
  request.set_top_logprobs(flags.top);
  request.set_label("folioctl");
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  const auto score = (*client)->Score(request, context.Call());
  if (!score.ok()) return score.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) return context.Print(*score);
  const auto pieces = (*client)->Tokenize(request.continuation(), context.Call());
  if (!pieces.ok()) return pieces.status();
  const std::vector<folio::v1::TokenLogprob> tokens(score->tokens().begin(), score->tokens().end());
  const std::vector<std::string> texts(pieces->pieces().begin(), pieces->pieces().end());
  out << RenderLogprobs(tokens, texts, context.terminal);
  double sum = 0;
  for (const auto& token : tokens) sum += token.logprob();
  if (score->tokens_size() > 0) {
    const double mean = sum / score->tokens_size();
    out << absl::StrFormat("sum %.4f, mean %.4f, perplexity %.3f\n", sum, mean, std::exp(-mean));
  }
  return absl::OkStatus();
}

struct TokenizeFlags {
  PromptFlags prompt;
  bool ids = false;
};

absl::Status Tokenize(const TokenizeFlags& flags, Context& context) {
  const auto input = flags.prompt.Read(context.terminal);
  if (!input.ok()) return input.status();
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  const auto result = (*client)->Tokenize(*input, context.Call());
  if (!result.ok()) return result.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) return context.Print(*result);
  if (flags.ids) {
    for (int i = 0; i < result->ids_size(); ++i) out << (i == 0 ? "" : " ") << result->ids(i);
    out << "\n";
    return absl::OkStatus();
  }
  Table table({{"#", Table::Align::kRight}, {"token", Table::Align::kRight}, {"text"}});
  for (int i = 0; i < result->ids_size(); ++i) {
    table.Row({absl::StrCat(i), absl::StrCat(result->ids(i)), QuotePiece(result->pieces(i))});
  }
  out << table.Render(context.terminal);
  return absl::OkStatus();
}

struct DetokenizeFlags {
  std::vector<uint32_t> ids;
  bool skip_special = false;
};

absl::Status Detokenize(const DetokenizeFlags& flags, Context& context) {
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  const auto text = (*client)->Detokenize(flags.ids, flags.skip_special, context.Call());
  if (!text.ok()) return text.status();
  if (context.structured()) {
    folio::v1::DetokenizeResponse response;
    response.set_text(*text);
    return context.Print(response);
  }
  context.terminal.out << context.terminal.Printable(*text) << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddScore(CLI::App& root, Context& context) {
  auto flags = std::make_shared<ScoreFlags>();
  CLI::App* command = AddCommand(
      root, "score", "Log-probabilities of a given continuation (worker)",
      "  folioctl score \"The capital of France is\" --continuation \" Paris.\" --top 3\n"
      "  folioctl score --file book.txt --continuation \"The end\" "
      "--policy streaming_llm --budget 256");
  flags->prompt.Add(*command);
  flags->cache.Add(*command);
  command->add_option("--continuation", flags->continuation, "The text to score")->required();
  command->add_option("--top", flags->top, "Show also the N likeliest tokens (at most 20)");
  SetAction(command, Score, flags, context);
}

void AddTokenize(CLI::App& root, Context& context) {
  auto flags = std::make_shared<TokenizeFlags>();
  CLI::App* command = AddCommand(root, "tokenize", "Token ids of a text (worker)",
                                 "  folioctl tokenize \"Hello, world!\"\n"
                                 "  folioctl tokenize --chat \"Hi\" --ids\n"
                                 "  folioctl tokenize --file report.txt --output json");
  flags->prompt.Add(*command);
  command->add_flag("--ids", flags->ids, "Only the ids, on one line");
  SetAction(command, Tokenize, flags, context);
}

void AddDetokenize(CLI::App& root, Context& context) {
  auto flags = std::make_shared<DetokenizeFlags>();
  CLI::App* command = AddCommand(root, "detokenize", "Text of token ids (worker)",
                                 "  folioctl detokenize 19556 28 905 17");
  command->add_option("ids", flags->ids, "Token ids")->required();
  command->add_flag("--skip_special", flags->skip_special, "Leave special tokens out");
  SetAction(command, Detokenize, flags, context);
}

}  // namespace folio::cli
