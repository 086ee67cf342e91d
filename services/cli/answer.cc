#include "services/cli/answer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "services/cli/format.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

using folio::v1::GenerateResponse;

// A line on the error stream that is rewritten and finally removed.
class ProgressLine {
 public:
  explicit ProgressLine(Terminal& terminal) : terminal_(terminal) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Show(const folio::v1::Progress& progress) {
    if (!terminal_.err_is_tty) return;
    if (progress.queue_position() > 0) {
      shown_ = true;
      terminal_.err << "\r\033[Kwaiting for room, at place " << progress.queue_position()
                    << std::flush;
    }
    if (progress.total_tokens() == 0) return;
    shown_ = true;
    terminal_.err << "\r\033[Kprefill " << FormatCount(progress.done_tokens()) << " of "
                  << FormatCount(progress.total_tokens()) << " tokens ("
                  << 100ULL * progress.done_tokens() / progress.total_tokens() << " %)"
                  << std::flush;
  }
  void Clear() {
    if (shown_) terminal_.err << "\r\033[K" << std::flush;
    shown_ = false;
  }

 private:
  Terminal& terminal_;
  bool shown_ = false;
};

}  // namespace

void Answer::Add(const GenerateResponse& event) {
  switch (event.event_case()) {
    case GenerateResponse::kStarted:
      started = event.started();
      break;
    case GenerateResponse::kChunk:
      text += event.chunk().text();
      logprobs.insert(logprobs.end(), event.chunk().logprobs().begin(),
                      event.chunk().logprobs().end());
      break;
    case GenerateResponse::kEviction:
      evictions.push_back(event.eviction());
      break;
    case GenerateResponse::kFinished:
      finished = event.finished();
      break;
    default:
      break;
  }
}

absl::Status StreamAnswer(client::Client& client, const folio::v1::GenerateRequest& request,
                          const client::CallOptions& options, const Output& output,
                          Terminal& terminal, Answer* answer) {
  const Interrupts::Scope scope(&terminal.interrupts,
                                [cancellation = options.cancellation] { cancellation.Cancel(); });
  ProgressLine progress(terminal);
  absl::Status written;
  absl::Status status = client.Generate(
      request,
      [&](const GenerateResponse& event) {
        answer->Add(event);
        if (event.has_prefill()) {
          progress.Show(event.prefill());
        } else {
          progress.Clear();
        }
        if (output.structured()) {
          written = WriteItem(event, output, terminal.out);
        } else if (event.has_chunk()) {
          terminal.out << terminal.Printable(event.chunk().text()) << std::flush;
        }
        return written.ok();
      },
      options);
  progress.Clear();
  if (!written.ok()) return written;
  if (!output.structured() && !answer->text.empty() && answer->text.back() != '\n')
    terminal.out << "\n";
  terminal.out << std::flush;
  return status;
}

double DecodeRate(const folio::v1::Usage& usage) {
  if (usage.generated_tokens() < 2 || usage.decode_seconds() <= 0) return 0;
  return (usage.generated_tokens() - 1) / usage.decode_seconds();
}

std::string FinishName(const folio::v1::Finished& finished) {
  switch (finished.reason()) {
    case folio::v1::FINISH_REASON_EOS:
      return "eos";
    case folio::v1::FINISH_REASON_STOP:
      return absl::StrCat("stop ", QuotePiece(finished.stop()));
    case folio::v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "unknown";
  }
}

std::string RenderStats(const Answer& answer, const Terminal& terminal) {
  const auto& usage = answer.finished.usage();
  const auto& cache = answer.finished.cache();
  const double prefill = usage.prefill_seconds();
  Table table = Table::Facts();
  table.Row({"sequence", absl::StrCat(answer.started.sequence_id())});
  table.Row({"cache", DescribeCache(answer.started.cache())});
  table.Row({"seed", absl::StrCat(answer.started.seed())});
  table.Row({"finish reason", FinishName(answer.finished)});
  if (answer.finished.replays() > 0) {
    table.Row({"replayed", FormatCount(answer.finished.replays())});
  }
  table.Row({"prompt tokens", FormatCount(usage.prompt_tokens())});
  table.Row({"generated tokens", FormatCount(usage.generated_tokens())});
  table.Row({"time in queue", FormatSeconds(usage.queue_seconds())});
  table.Row({"time to first token", FormatSeconds(usage.time_to_first_token())});
  table.Row({"prefill", absl::StrCat(FormatSeconds(prefill), ", ",
                                     FormatRate(prefill > 0 ? usage.prompt_tokens() / prefill : 0),
                                     " tokens")});
  table.Row({"decode", absl::StrCat(FormatSeconds(usage.decode_seconds()), ", ",
                                    FormatRate(DecodeRate(usage)), " tokens")});
  table.Row({"resident tokens", absl::StrCat(FormatCount(cache.resident_tokens()), " per layer, ",
                                             FormatCount(cache.peak_resident_tokens()), " peak")});
  table.Row({"resident KV", FormatBytes(cache.resident_bytes())});
  table.Row({"pages held", absl::StrCat(FormatCount(cache.held_pages()), ", ",
                                        FormatCount(cache.peak_held_pages()), " peak")});
  table.Row({"evicted", absl::StrCat(FormatCount(cache.evicted_tokens()), " tokens per layer, ",
                                     FormatCount(cache.evicted_pages()), " pages, ",
                                     FormatCount(cache.plans()), " plans")});
  return table.Render(terminal);
}

std::string RenderLogprobs(absl::Span<const folio::v1::TokenLogprob> tokens,
                           absl::Span<const std::string> pieces, const Terminal& terminal) {
  Table table({{"#", Table::Align::kRight},
               {"token", Table::Align::kRight},
               {"text"},
               {"logprob", Table::Align::kRight},
               {"most likely"}});
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string top;
    for (const auto& candidate : tokens[i].top()) {
      absl::StrAppend(&top, top.empty() ? "" : "  ", QuotePiece(candidate.bytes()), " ",
                      absl::StrFormat("%.3f", candidate.logprob()));
    }
    table.Row({absl::StrCat(i), absl::StrCat(tokens[i].token()),
               i < pieces.size() ? QuotePiece(pieces[i]) : "",
               absl::StrFormat("%.4f", tokens[i].logprob()), top});
  }
  return table.Render(terminal);
}

absl::StatusOr<std::vector<Ranges>> KeptAtEnd(const Answer& answer,
                                              const folio::v1::ModelLayout& layout) {
  client::KeptPositions kept(layout.num_layers(), layout.page_tokens(),
                             answer.finished.usage().prompt_tokens());
  for (const auto& event : answer.evictions) {
    if (absl::Status status = kept.Apply(event); !status.ok()) return status;
  }
  kept.Extend(client::LengthAtEnd(answer.finished.usage()));
  return kept.layers();
}

}  // namespace folio::cli
