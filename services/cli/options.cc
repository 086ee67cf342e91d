#include "services/cli/options.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/base/urgency.h"
#include "services/cli/exit_code.h"
#include "services/client/inputs.h"
#include "services/client/policy_text.h"
#include "services/text/utf8.h"

namespace folio::cli {
namespace {

absl::Status CheckUtf8(absl::string_view what, absl::string_view text) {
  if (const auto at = FirstInvalidUtf8(text); at.has_value()) {
    return UsageError(absl::StrCat(what, " is not UTF-8 at byte ", *at));
  }
  return absl::OkStatus();
}

absl::Status FillBudget(const std::string& text, folio::v1::CacheOptions* cache) {
  if (text.empty()) return absl::OkStatus();
  const std::vector<std::string> layers = absl::StrSplit(text, ',');
  uint32_t tokens = 0;
  float share = 0;
  if (layers.size() == 1) {
    if (absl::SimpleAtoi(text, &tokens)) {
      cache->set_budget_tokens(tokens);
    } else if (absl::SimpleAtof(text, &share) && share > 0 && share <= 1) {
      cache->set_budget_share(share);
    } else {
      return UsageError(absl::StrCat("--budget ", text, ": no tokens and no share of the prompt"));
    }
    return absl::OkStatus();
  }
  for (const std::string& layer : layers) {
    if (!absl::SimpleAtoi(layer, &tokens)) {
      return UsageError(
          absl::StrCat("--budget ", text, ": \"", layer, "\" is not a number of tokens"));
    }
    cache->add_layer_budget_tokens(tokens);
  }
  return absl::OkStatus();
}

}  // namespace

void CacheFlags::Add(CLI::App& command) {
  command
      .add_option("--policy", policy,
                  "Policy that evicts over the budget (full never does). A parameter that is left "
                  "out has the\n"
                  "manager's default. One of\n  " +
                      absl::StrJoin(client::PolicyForms(), "\n  "))
      ->capture_default_str();
  command.add_option("--budget", budget,
                     "Tokens that stay in the cache per layer (a multiple of the page size), a\n"
                     "share of the prompt such as 0.25, or tokens for each layer as 64,64,32");
  command
      .add_option("--schedule", schedule,
                  "Spread of the budget over the layers: uniform or pyramid")
      ->check(CLI::IsMember({"uniform", "pyramid"}))
      ->capture_default_str();
  command.add_option("--sink", sink, "First tokens that are never evicted (default: one page)");
  command.add_option("--recent", recent, "Last tokens that are never evicted (default: one page)");
  command
      .add_option(
          "--compaction", compaction,
          "When a prompt over its budget is compacted: whole (at its end), or streamed (also\n"
          "during prefill, so that it never holds more than budget and stride). Automatic is\n"
          "whole if the pool has room for it")
      ->check(CLI::IsMember({"automatic", "whole", "streamed"}))
      ->capture_default_str();
  command
      .add_option("--compaction_stride", compaction_stride,
                  "Prompt tokens between two streamed compactions (default: 512)")
      ->check(CLI::PositiveNumber);
  command
      .add_option(
          "--layers", layers,
          "Layers choose the tokens that go per_layer (each by itself), or shared (once for\n"
          "all of them, by the mean of their rankings)")
      ->check(CLI::IsMember({"per_layer", "shared"}))
      ->capture_default_str();
  AddShares(command);
  command.add_option("--mode", mode, "When evictions take effect: pipelined or synchronous")
      ->check(CLI::IsMember({"pipelined", "synchronous"}))
      ->capture_default_str();
}

void CacheFlags::AddShares(CLI::App& command) {
  command
      .add_option("--prompt_share", prompt_share,
                  "Share of the budget that generation leaves to the prompt (at most 0.9). The\n"
                  "default is 0, and 0.4 with query_diff")
      ->check(CLI::Range(0.0, 0.9));
  command
      .add_option("--protect_ends", protect_ends,
                  "Share of the budget that stays at each end of the prompt (at most 0.4)")
      ->check(CLI::Range(0.0, 0.4))
      ->capture_default_str();
  command
      .add_option("--segments", segments,
                  "Stretches of the text that keep a part of their tokens each (at most 64)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
}

absl::StatusOr<folio::v1::CacheOptions> CacheFlags::ToProto() const {
  folio::v1::CacheOptions cache;
  auto parsed = client::ParsePolicy(policy);
  if (!parsed.ok()) return UsageError(parsed.status().message());
  *cache.mutable_policy() = *std::move(parsed);
  if (absl::Status status = FillBudget(budget, &cache); !status.ok()) return status;
  if (schedule == "pyramid") cache.set_budget_schedule(folio::v1::BUDGET_SCHEDULE_PYRAMID);
  if (sink.has_value()) cache.set_sink_tokens(*sink);
  if (recent.has_value()) cache.set_recent_tokens(*recent);
  if (compaction == "whole") cache.set_compaction(folio::v1::COMPACTION_WHOLE);
  if (compaction == "streamed") cache.set_compaction(folio::v1::COMPACTION_STREAMED);
  if (compaction_stride.has_value()) cache.set_compaction_stride_tokens(*compaction_stride);
  if (layers == "shared") cache.set_layers(folio::v1::LAYERS_SHARED);
  if (prompt_share.has_value()) cache.set_prompt_share(*prompt_share);
  cache.set_protect_ends(protect_ends);
  if (segments > 1) cache.set_segments(segments);
  cache.set_eviction_mode(mode == "synchronous" ? folio::v1::EVICTION_MODE_SYNCHRONOUS
                                                : folio::v1::EVICTION_MODE_PIPELINED);
  return cache;
}

CacheFlags CacheFlags::With(const std::string& text) const {
  CacheFlags flags = *this;
  flags.policy = text;
  const size_t colon = text.rfind(':');
  double budget_in_text = 0;
  if (colon != std::string::npos && absl::SimpleAtod(text.substr(colon + 1), &budget_in_text)) {
    flags.policy = text.substr(0, colon);
    flags.budget = text.substr(colon + 1);
  }
  return flags;
}

void SamplingFlags::Add(CLI::App& command) {
  command.add_option("--temperature", temperature, "0: always the likeliest token (default)");
  command.add_option("--top_k", top_k, "Sample from the K likeliest tokens (0: off)");
  command.add_option("--top_p", top_p, "Sample from the likeliest tokens that together reach P");
  command.add_option("--min_p", min_p, "Leave out tokens less than P times the likeliest (0: off)");
  command.add_option("--seed", seed, "Repeats a sampled answer (default: chosen by the worker)");
}

folio::v1::SamplingParams SamplingFlags::ToProto() const {
  folio::v1::SamplingParams params;
  params.set_temperature(temperature);
  params.set_top_k(top_k);
  if (top_p.has_value()) params.set_top_p(*top_p);
  params.set_min_p(min_p);
  if (seed.has_value()) params.set_seed(*seed);
  return params;
}

void LengthFlags::Add(CLI::App& command) {
  command.add_option("--max_tokens", max_tokens,
                     "Most new tokens (default: 256, or what the context leaves)");
  command.add_option("--stop", stop, "End before this text; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_flag("--ignore_eos", ignore_eos, "Do not end at the model's end token");
  command.add_option("--label", label, "Shown to operators beside the sequence")
      ->capture_default_str();
  command
      .add_option("--priority", priority,
                  "From -100 to 100; lower ones come first where requests wait for room")
      ->check(CLI::Range(-kMaxPriority, kMaxPriority))
      ->capture_default_str();
  command
      .add_option("--tenant", tenant,
                  "The party that asks; tenants take turns when requests wait for room")
      ->capture_default_str();
}

void LengthFlags::Fill(folio::v1::GenerateRequest* request) const {
  request->set_max_tokens(max_tokens);
  for (const std::string& text : stop) request->add_stop(text);
  request->set_ignore_eos(ignore_eos);
  request->set_label(label);
  request->set_priority(priority);
  request->set_tenant(tenant);
}

void PromptFlags::Add(CLI::App& command) {
  command.add_option("prompt", text, "The text; - reads standard input");
  command.add_option("--file", file, "Read the text from this file");
  command.add_flag("--chat", chat, "Give the text as a user's message, in the model's template");
  command.add_option("--system", system, "With --chat: the system message");
}

absl::StatusOr<folio::v1::Input> PromptFlags::Read(Terminal& terminal) const {
  if (text.has_value() && file.has_value()) {
    return UsageError("both a text and --file are given");
  }
  if (!system.empty() && !chat) {
    return UsageError("--system needs --chat");
  }
  std::string prompt = text.value_or("");
  if (file.has_value() || text == "-" || (!text.has_value() && !terminal.in_is_tty)) {
    absl::StatusOr<std::string> read = ReadText(file.value_or("-"), terminal);
    if (!read.ok()) return read.status();
    prompt = *std::move(read);
  } else if (!text.has_value()) {
    return UsageError("no text: give it as an argument, by --file, or - for stdin");
  }
  absl::Status status = CheckUtf8("the text", prompt);
  status.Update(CheckUtf8("--system", system));
  if (!status.ok()) return status;
  return chat ? client::Ask(prompt, system) : client::Text(prompt);
}

absl::StatusOr<std::string> ReadText(const std::string& file, Terminal& terminal) {
  std::ostringstream text;
  if (file == "-") {
    text << terminal.in.rdbuf();
    return text.str();
  }
  std::ifstream stream(file, std::ios::binary);
  // A directory can be opened, but reading it fails.
  if (!stream || (stream.peek() == EOF && stream.bad())) {
    return absl::NotFoundError(absl::StrCat("cannot read ", file, ": ", std::strerror(errno)));
  }
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void ReasonFlags::Add(CLI::App& command) {
  command.add_option("--reason", text,
                     "Why, for the manager's log and its events (at most 256 bytes)");
}

bool ParseTimeout(const std::string& text, absl::Duration* timeout) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    if (!std::isfinite(seconds)) return false;
    *timeout = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, timeout)) {
    return false;
  }
  return *timeout > absl::ZeroDuration();
}

std::vector<std::string> NormalizeFlags(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (!absl::StartsWith(argument, "--")) continue;
    const size_t end = std::min(argument.find('='), argument.size());
    std::replace(argument.begin() + 2, argument.begin() + static_cast<ptrdiff_t>(end), '-', '_');
  }
  return arguments;
}

}  // namespace folio::cli
