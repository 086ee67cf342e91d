// folioctl chat is a conversation at the terminal. Each request has the whole conversation, because
// the worker keeps nothing between answers.
#include <memory>
#include <utility>

#include "services/cli/answer.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/options.h"
#include "services/cli/rule_flags.h"

namespace folio::cli {
namespace {

struct ChatFlags {
  std::string system;
  CacheFlags cache;
  SamplingFlags sampling;
  LengthFlags length;
  RuleFlags rule;
};

class Conversation {
 public:
  Conversation(const ChatFlags& flags, folio::v1::GenerateRequest base, client::Client& client,
               Context& context)
      : flags_(flags), base_(std::move(base)), client_(client), context_(context) {
    Reset();
  }

  absl::Status Run() {
    Terminal& terminal = context_.terminal;
    if (terminal.in_is_tty) {
      Words() << terminal.Faint("Ctrl-C stops an answer, Ctrl-D leaves; /help for more.") << "\n";
    }
    std::string line;
    while (ReadLine(&line)) {
      if (line.empty()) continue;
      if (line == "/quit") break;
      if (absl::Status status = line[0] == '/' ? Command(line) : Answer(line); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  // The stream for everything but answers. With JSON the output has events only.
  std::ostream& Words() {
    return context_.structured() ? context_.terminal.err : context_.terminal.out;
  }

  bool ReadLine(std::string* line) {
    Terminal& terminal = context_.terminal;
    // Between answers there is nothing to stop.
    const Interrupts::Scope scope(&terminal.interrupts, [this, &terminal] {
      Words() << "\n" << terminal.Faint("(Ctrl-D or /quit leaves)") << "\n> " << std::flush;
    });
    if (terminal.in_is_tty) Words() << terminal.Bold("> ") << std::flush;
    if (std::getline(terminal.in, *line)) return true;
    if (terminal.in_is_tty) Words() << "\n";
    return false;
  }

  void Reset() {
    turns_.clear();
    last_.reset();
    if (!flags_.system.empty()) turns_.push_back({"system", flags_.system});
  }

  absl::Status Command(const std::string& line) {
    std::ostream& out = Words();
    if (line == "/reset") {
      Reset();
      out << "The conversation starts again.\n";
    } else if (line == "/stats") {
      if (last_.has_value()) {
        out << RenderStats(*last_, context_.terminal);
      } else {
        out << "No answer yet.\n";
      }
    } else {
      if (line != "/help") out << "No command " << context_.terminal.Printable(line) << ".\n";
      out << "/reset  forget the conversation\n/stats  what the last answer cost\n"
             "/quit   leave (also Ctrl-D)\n";
    }
    return absl::OkStatus();
  }

  absl::Status Answer(const std::string& line) {
    Terminal& terminal = context_.terminal;
    turns_.push_back({"user", line});
    *base_.mutable_input() = client::Chat(turns_);
    terminal.interrupts.Clear();
    cli::Answer answer;
    absl::Status status =
        StreamAnswer(client_, base_, context_.Call(), context_.output, terminal, &answer);
    const bool stopped = absl::IsCancelled(status) && terminal.interrupts.raised();
    terminal.interrupts.Clear();
    if (status.ok() || stopped) {
      // A stopped answer stays in the conversation as far as it came.
      turns_.push_back({"assistant", answer.text});
      if (stopped) Words() << terminal.Faint("(stopped)") << "\n";
      if (status.ok()) last_ = std::move(answer);
      return absl::OkStatus();
    }
    turns_.pop_back();
    // At a terminal one may try again; a script wants to know.
    if (!terminal.in_is_tty || absl::IsUnavailable(status)) return status;
    terminal.err << "folioctl: " << absl::StatusCodeToString(status.code()) << ": "
                 << status.message() << "\n";
    return absl::OkStatus();
  }

  const ChatFlags& flags_;
  folio::v1::GenerateRequest base_;
  client::Client& client_;
  Context& context_;
  std::vector<client::ChatTurn> turns_;
  std::optional<cli::Answer> last_;
};

absl::Status Chat(const ChatFlags& flags, Context& context) {
  const auto cache = flags.cache.ToProto();
  if (!cache.ok()) return cache.status();
  folio::v1::GenerateRequest base;
  *base.mutable_cache() = *cache;
  *base.mutable_sampling() = flags.sampling.ToProto();
  flags.length.Fill(&base);
  if (absl::Status status = flags.rule.Fill(&base); !status.ok()) return status;
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  return Conversation(flags, std::move(base), **client, context).Run();
}

}  // namespace

void AddChat(CLI::App& root, Context& context) {
  auto flags = std::make_shared<ChatFlags>();
  CLI::App* command =
      AddCommand(root, "chat", "Talk to the model, one answer per line (worker)",
                 "  folioctl chat\n"
                 "  folioctl chat --system \"Be brief.\" --policy paged_eviction --budget 512\n"
                 "Commands in the conversation: /reset, /stats, /quit. Ctrl-C stops an answer, "
                 "Ctrl-D leaves.");
  command->add_option("--system", flags->system, "The system message");
  flags->cache.Add(*command);
  flags->sampling.Add(*command);
  flags->length.Add(*command);
  flags->rule.Add(*command);
  SetAction(command, Chat, flags, context);
}

}  // namespace folio::cli
