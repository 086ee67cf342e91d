// folioctl model and sequences show what runs and what it holds.

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/sequence_text.h"
#include "services/cli/table.h"

namespace folio::cli {
namespace {

absl::Status ShowModel(Context& context) {
  const auto client = context.ConnectWorker();
  if (!client.ok()) return client.status();
  const auto model = (*client)->GetModel(context.Call());
  if (!model.ok()) return model.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) return context.Print(*model);
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

absl::Status ShowSequences(Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto list = (*client)->ListSequences(context.Call());
  if (!list.ok()) return list.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) return context.Print(*list);
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
               {"age", kRight},
               {"max length", kRight, kOnlyWide},
               {"reserved", kRight, kOnlyWide},
               {"evicted pages", kRight, kOnlyWide},
               {"plans", kRight, kOnlyWide},
               {"lease", kRight, kOnlyWide},
               {"swap slots", kRight, kOnlyWide},
               {"priority", kRight, kOnlyWide},
               {"pool", kLeft, kOnlyWide},
               {"cache", kLeft, kOnlyWide}},
              context.wide());
  for (const auto& sequence : list->sequences()) {
    const uint32_t budget = sequence.cache().budget_tokens();
    table.Row({absl::StrCat(sequence.sequence_id()),
               QuotePiece(sequence.label()),
               TenantName(sequence.tenant()),
               sequence.worker_id(),
               StateName(sequence),
               PolicyName(sequence.cache()),
               budget == 0 ? "-" : FormatCount(budget),
               FormatCount(sequence.prompt_tokens()),
               FormatCount(sequence.logical_length()),
               FormatCount(sequence.resident_tokens()),
               FormatCount(sequence.held_pages()),
               FormatBytes(sequence.held_bytes()),
               FormatCount(sequence.evicted_tokens()),
               FormatSeconds(sequence.age_ms() / 1e3),
               FormatCount(uint64_t{sequence.prompt_tokens()} + sequence.max_new_tokens()),
               FormatCount(sequence.reserved_pages()),
               FormatCount(sequence.evicted_pages()),
               absl::StrCat(sequence.plan_epoch()),
               absl::StrCat(sequence.lease_epoch()),
               FormatCount(sequence.swap_slots()),
               absl::StrCat(sequence.priority()),
               PoolName(sequence.pool()),
               DescribeCache(sequence.cache())});
  }
  out << table.Render(context.terminal);
  return absl::OkStatus();
}

}  // namespace

void AddModel(CLI::App& root, Context& context) {
  CLI::App* command =
      AddCommand(root, "model", "Show the model of a worker and its settings (worker)",
                 "  folioctl model\n  folioctl model --output json");
  SetAction(command, ShowModel, context);
}

void AddSequences(CLI::App& root, Context& context) {
  CLI::App* command = AddCommand(root, "sequences", "Open sequences and what they hold (manager)",
                                 "  folioctl sequences\n  watch -n 0.5 folioctl sequences");
  SetAction(command, ShowSequences, context);
}

}  // namespace folio::cli
