// folioctl sequence shows one sequence: what it keeps, its scores, and what was evicted when.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/heat.h"
#include "services/cli/page_map.h"
#include "services/cli/sequence_text.h"
#include "services/cli/sequence_view.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

struct SequenceFlags {
  uint64_t id = 0;
  bool pages = false;
  bool history = false;
};

std::string RenderSequence(const folio::v1::GetSequenceResponse& detail, const SequenceFlags& flags,
                           const Terminal& terminal) {
  const auto& sequence = detail.sequence();
  Table facts = Table::Facts();
  facts.Row({"sequence", absl::StrCat(sequence.sequence_id(), " ", QuotePiece(sequence.label()))});
  facts.Row({"tenant", TenantName(sequence.tenant())});
  facts.Row({"worker", absl::StrCat(sequence.worker_id(), ", lease ", sequence.lease_epoch())});
  std::string state = StateName(sequence);
  if (sequence.state() == folio::v1::SEQUENCE_STATE_ORPHANED) {
    absl::StrAppend(&state, ", ends in ", FormatSeconds(sequence.orphan_ms() / 1e3),
                    " unless it is resumed");
  }
  facts.Row({"state", state});
  facts.Row({"cache", DescribeCache(sequence.cache())});
  facts.Row({"length", absl::StrCat(FormatCount(sequence.logical_length()), " tokens, prompt ",
                                    FormatCount(sequence.prompt_tokens()))});
  facts.Row({"resident", absl::StrCat(FormatCount(sequence.resident_tokens()), " per layer")});
  facts.Row({"pages", absl::StrCat(FormatCount(sequence.held_pages()), " held, ",
                                   FormatCount(sequence.reserved_pages()), " reserved, ",
                                   FormatBytes(sequence.held_bytes()))});
  if (sequence.swap_slots() > 0) {
    facts.Row({"swap slots", FormatCount(sequence.swap_slots())});
  }
  facts.Row({"evicted", absl::StrCat(FormatCount(sequence.evicted_tokens()), " tokens per layer, ",
                                     FormatCount(sequence.evicted_pages()), " pages, ",
                                     sequence.plan_epoch(), " plans")});
  if (sequence.pages_behind_windows() > 0) {
    facts.Row({"behind windows",
               absl::StrCat(FormatCount(sequence.pages_behind_windows()), " pages, free")});
  }
  facts.Row({"age", FormatSeconds(sequence.age_ms() / 1e3)});

  std::vector<Ranges> layers;
  std::vector<std::string> notes;
  for (const auto& layer : detail.layers()) {
    Ranges& ranges = layers.emplace_back();
    for (const auto& range : layer.kept()) ranges.push_back({range.begin(), range.end()});
    std::string note = absl::StrCat(layer.pages_size());
    if (flags.pages) {
      note += ':';
      for (const auto& page : layer.pages()) {
        absl::StrAppend(&note, " ", page.page(), ".", page.generation());
      }
    }
    notes.push_back(std::move(note));
  }
  MapOptions options;
  options.prompt_tokens = sequence.prompt_tokens();
  options.length = std::max(sequence.logical_length(), sequence.prompt_tokens());
  // Page lists may be long, so the bars' width does not depend on them.
  Terminal wide{terminal.in, terminal.out, terminal.err, terminal.interrupts};
  wide.color = terminal.color;
  wide.utf8 = terminal.utf8;
  wide.width = flags.pages ? 10000 : terminal.width;
  return absl::StrCat(facts.Render(terminal), "\n", RenderMap(layers, notes, options, wide));
}

std::string Render(client::AdminClient& client, const folio::v1::GetSequenceResponse& detail,
                   const SequenceFlags& flags, const Context& context) {
  std::string text = RenderSequence(detail, flags, context.terminal);
  // The scores that its own policy would decide by, if it has any now. A policy without scores has
  // none, nor has a sequence in prefill.
  folio::v1::ExplainEvictionRequest request;
  request.set_sequence_id(flags.id);
  const auto scores = client.ExplainEviction(request, context.Call());
  if (scores.ok()) text += RenderHeat(*scores, context.terminal);
  return text + RenderHistory(detail, flags.history, context.terminal);
}

absl::Status ShowSequence(const SequenceFlags& flags, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto detail = (*client)->GetSequence(flags.id, context.Call());
  if (!detail.ok()) return detail.status();
  if (context.structured()) return context.Print(*detail);
  context.terminal.out << Render(**client, *detail, flags, context);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> SequenceView(client::AdminClient& client, uint64_t id,
                                         const Context& context) {
  const auto detail = client.GetSequence(id, context.Call());
  if (!detail.ok()) return detail.status();
  return Render(client, *detail, {.id = id}, context);
}

void AddSequence(CLI::App& root, Context& context) {
  auto flags = std::make_shared<SequenceFlags>();
  CLI::App* command = AddCommand(
      root, "sequence",
      "One sequence: what each layer keeps and where, the scores of its pages, and what was\n"
      "evicted when (manager)",
      "  folioctl sequence 12\n"
      "  folioctl sequence 12 --pages\n"
      "  folioctl sequence 12 --history");
  command->add_option("id", flags->id, "The sequence's id, from folioctl sequences")->required();
  command->add_flag("--pages", flags->pages, "List the pages too, as page.generation");
  command->add_flag("--history", flags->history,
                    "List all evictions that the manager remembers, and not only the newest ones");
  SetAction(command, ShowSequence, flags, context);
}

}  // namespace folio::cli
