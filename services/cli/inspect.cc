// folioctl model, sequences and sequence show what runs and what it holds.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/page_map.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

absl::Status ShowModel(Context& context) {
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  const auto model = (*client)->GetModel(context.Call());
  if (!model.ok()) return model.status();
  std::ostream& out = context.terminal.out;
  if (context.json) {
    out << ToJson(*model, /*pretty=*/true);
    return absl::OkStatus();
  }
  const auto& layout = model->layout();
  Table table = Table::Facts();
  table.Row({"model", layout.model()});
  table.Row({"architecture", model->architecture()});
  table.Row({"fingerprint", layout.fingerprint()});
  table.Row({"parameters", FormatCount(model->parameters())});
  table.Row({"weights in memory", FormatBytes(model->weight_bytes())});
  table.Row({"layers", FormatCount(layout.num_layers())});
  table.Row({"hidden size", FormatCount(model->hidden_size())});
  table.Row({"heads", absl::StrCat(model->num_attention_heads(), " query, ", layout.num_kv_heads(),
                                   " KV, of ", layout.head_dim())});
  table.Row({"vocabulary", FormatCount(model->vocab_size())});
  table.Row({"context", absl::StrCat(FormatCount(model->context_length()), " tokens")});
  table.Row({"page", absl::StrCat(layout.page_tokens(), " tokens")});
  table.Row({"KV per token", FormatBytes(model->kv_bytes_per_token())});
  table.Row({"device", model->device()});
  table.Row({"compute", absl::StrCat(model->compute(), ", ", model->kernels(), " kernels, ",
                                     model->threads(), " threads")});
  table.Row({"chat template", model->chat_template() ? "yes" : "no"});
  table.Row({"end tokens", absl::StrJoin(model->eos_tokens(), ", ")});
  out << table.Render(context.terminal);
  return absl::OkStatus();
}

std::string StateName(folio::v1::SequenceState state) {
  switch (state) {
    case folio::v1::SEQUENCE_STATE_PREFILL:
      return "prefill";
    case folio::v1::SEQUENCE_STATE_DECODE:
      return "decode";
    case folio::v1::SEQUENCE_STATE_EVICTING:
      return "evicting";
    case folio::v1::SEQUENCE_STATE_ORPHANED:
      return "orphaned";
    case folio::v1::SEQUENCE_STATE_PARKED:
      return "parked";
    default:
      return "unknown";
  }
}

// Sequences whose requests name no tenant are of one tenant, which has no name.
std::string TenantName(const folio::v1::Sequence& sequence) {
  return sequence.tenant().empty() ? "-" : QuotePiece(sequence.tenant());
}

absl::Status ShowSequences(Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto list = (*client)->ListSequences(context.Call());
  if (!list.ok()) return list.status();
  std::ostream& out = context.terminal.out;
  if (context.json) {
    out << ToJson(*list, /*pretty=*/true);
    return absl::OkStatus();
  }
  if (list->sequences().empty()) {
    out << "No sequence is open.\n";
    return absl::OkStatus();
  }
  Table table({{"sequence", kRight},
               {"label"},
               {"tenant"},
               {"worker"},
               {"state"},
               {"policy"},
               {"budget", kRight},
               {"prompt", kRight},
               {"length", kRight},
               {"resident", kRight},
               {"pages", kRight},
               {"KV", kRight},
               {"evicted", kRight},
               {"age", kRight}});
  for (const auto& sequence : list->sequences()) {
    const uint32_t budget = sequence.cache().budget_tokens();
    table.Row({absl::StrCat(sequence.sequence_id()), QuotePiece(sequence.label()),
               TenantName(sequence), sequence.worker_id(), StateName(sequence.state()),
               PolicyName(sequence.cache()), budget == 0 ? "-" : FormatCount(budget),
               FormatCount(sequence.prompt_tokens()), FormatCount(sequence.logical_length()),
               FormatCount(sequence.resident_tokens()), FormatCount(sequence.held_pages()),
               FormatBytes(sequence.held_bytes()), FormatCount(sequence.evicted_tokens()),
               FormatSeconds(sequence.age_ms() / 1e3)});
  }
  out << table.Render(context.terminal);
  return absl::OkStatus();
}

struct SequenceFlags {
  uint64_t id = 0;
  bool pages = false;
};

std::string RenderSequence(const folio::v1::GetSequenceResponse& detail, const SequenceFlags& flags,
                           const Terminal& terminal) {
  const auto& sequence = detail.sequence();
  Table facts = Table::Facts();
  facts.Row({"sequence", absl::StrCat(sequence.sequence_id(), " ", QuotePiece(sequence.label()))});
  facts.Row({"tenant", TenantName(sequence)});
  facts.Row({"worker", absl::StrCat(sequence.worker_id(), ", lease ", sequence.lease_epoch())});
  std::string state = StateName(sequence.state());
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

absl::Status ShowSequence(const SequenceFlags& flags, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto detail = (*client)->GetSequence(flags.id, context.Call());
  if (!detail.ok()) return detail.status();
  context.terminal.out << (context.json ? ToJson(*detail, /*pretty=*/true)
                                        : RenderSequence(*detail, flags, context.terminal));
  return absl::OkStatus();
}

}  // namespace

void AddModel(CLI::App& root, Context& context) {
  CLI::App* command =
      AddCommand(root, "model", "Show the model of a worker and its settings (worker)",
                 "  folioctl model\n  folioctl model --output json");
  command->callback([&context] { context.action = [&context] { return ShowModel(context); }; });
}

void AddSequences(CLI::App& root, Context& context) {
  CLI::App* command = AddCommand(root, "sequences", "Open sequences and what they hold (manager)",
                                 "  folioctl sequences\n  watch -n 0.5 folioctl sequences");
  command->callback([&context] { context.action = [&context] { return ShowSequences(context); }; });
}

void AddSequence(CLI::App& root, Context& context) {
  auto flags = std::make_shared<SequenceFlags>();
  CLI::App* command =
      AddCommand(root, "sequence", "One sequence: what each layer keeps, and where (manager)",
                 "  folioctl sequence 12\n  folioctl sequence 12 --pages");
  command->add_option("id", flags->id, "The sequence's id, from folioctl sequences")->required();
  command->add_flag("--pages", flags->pages, "List the pages too, as page.generation");
  command->callback([flags, &context] {
    context.action = [flags, &context] { return ShowSequence(*flags, context); };
  });
}

}  // namespace folio::cli
