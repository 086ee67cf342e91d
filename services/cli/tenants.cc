// folioctl tenants shows for whom a manager works, and folioctl quota sets the most that one of
// them may have open.
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"
#include "services/cli/format.h"
#include "services/cli/options.h"
#include "services/cli/sequence_text.h"
#include "services/cli/table.h"
#include "services/client/steering.h"

namespace folio::cli {
namespace {

struct QuotaFlags {
  std::string tenant;
  std::optional<uint32_t> sequences, pages, requests_per_minute;
  bool none = false;
  ReasonFlags reason;

  bool limits() const {
    return sequences.has_value() || pages.has_value() || requests_per_minute.has_value();
  }
};

std::string QuotaText(const QuotaFlags& flags) {
  if (flags.none) return "has no quota.";
  std::string text;
  if (flags.sequences.has_value() || flags.pages.has_value()) {
    text += "may have at most ";
    if (flags.sequences.has_value()) text += FormatCount(*flags.sequences, "sequence");
    if (flags.sequences.has_value() && flags.pages.has_value()) text += " and ";
    if (flags.pages.has_value()) text += FormatCount(*flags.pages, "page");
    text += " open";
  }
  if (flags.requests_per_minute.has_value()) {
    absl::StrAppend(&text, text.empty() ? "" : ", and ", "may begin at most ",
                    FormatCount(*flags.requests_per_minute, "request"), " a minute");
  }
  return text + ".";
}

absl::Status SetQuota(const QuotaFlags& flags, Context& context) {
  if (flags.limits() == flags.none) {
    return UsageError(
        flags.none ? "leave --sequences, --pages and --requests_per_minute out with --none"
                   : "give some of --sequences, --pages and --requests_per_minute, or --none");
  }
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  folio::v1::Quota quota;
  if (flags.sequences.has_value()) quota.set_sequences(*flags.sequences);
  if (flags.pages.has_value()) quota.set_pages(*flags.pages);
  if (flags.requests_per_minute.has_value()) {
    quota.set_requests_per_minute(*flags.requests_per_minute);
  }
  absl::Status set =
      client::Steering(**client).SetQuota(flags.tenant, quota, flags.reason.text, context.Call());
  if (!set.ok()) return set;
  if (context.structured()) {
    nlohmann::ordered_json answer = {{"tenant", flags.tenant}, {"order", "quota"}};
    if (flags.sequences.has_value()) answer["sequences"] = *flags.sequences;
    if (flags.pages.has_value()) answer["pages"] = *flags.pages;
    if (flags.requests_per_minute.has_value()) {
      answer["requests_per_minute"] = *flags.requests_per_minute;
    }
    return context.Print(answer);
  }
  context.terminal.out << (flags.tenant.empty() ? "Requests without a tenant"
                                                : absl::StrCat("Tenant ", QuotePiece(flags.tenant)))
                       << " " << QuotaText(flags) << "\n";
  return absl::OkStatus();
}

absl::Status ShowTenants(Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto list = (*client)->ListTenants(context.Call());
  if (!list.ok()) return list.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) return context.Print(*list);
  if (list->tenants().empty()) {
    out << "No tenant has a sequence, waits for one or has a quota.\n";
    return absl::OkStatus();
  }
  // A tenant has a line for each pool.
  const std::string& first = list->tenants(0).pool();
  const bool several =
      absl::c_any_of(list->tenants(), [&](const auto& one) { return one.pool() != first; });
  Table table({{"tenant"},
               {"sequences", kRight},
               {"parked", kRight},
               {"waiting", kRight},
               {"pages", kRight},
               {"KV", kRight},
               {"may need", kRight, kOnlyWide},
               {"most sequences", kRight, kOnlyWide},
               {"most pages", kRight, kOnlyWide},
               {"most a minute", kRight, kOnlyWide},
               {"pool", kLeft, several ? !kOnlyWide : kOnlyWide}},
              context.wide());
  for (const auto& tenant : list->tenants()) {
    const folio::v1::Quota& quota = tenant.quota();
    table.Row({TenantName(tenant.tenant()), FormatCount(tenant.sequences()),
               FormatCount(tenant.parked()), FormatCount(tenant.waiting()),
               FormatCount(tenant.held_pages()), FormatBytes(tenant.held_bytes()),
               FormatCount(tenant.needed_pages()),
               quota.has_sequences() ? FormatCount(quota.sequences()) : "-",
               quota.has_pages() ? FormatCount(quota.pages()) : "-",
               quota.has_requests_per_minute() ? FormatCount(quota.requests_per_minute()) : "-",
               PoolName(tenant.pool())});
  }
  out << table.Render(context.terminal)
      << "\nWaiting are the first requests of the workers' lines. The workers keep the others.\n";
  return absl::OkStatus();
}

}  // namespace

void AddTenants(CLI::App& root, Context& context) {
  CLI::App* command = AddCommand(
      root, "tenants",
      "Tenants, what they hold, which of them wait for pages, and with --output wide their quotas\n"
      "(manager)",
      "  folioctl tenants\n  folioctl tenants --output wide");
  SetAction(command, ShowTenants, context);
}

void AddQuota(CLI::App& root, Context& context) {
  auto flags = std::make_shared<QuotaFlags>();
  CLI::App* command = AddCommand(
      root, "quota",
      "Set the most that a tenant may have open at a time and begin in a minute, until the\n"
      "manager ends or its --access file changes. A request beyond it fails with\n"
      "RESOURCE_EXHAUSTED, and what is open stays (manager)",
      "  folioctl quota batch --sequences 4 --pages 2000 --reason \"days are for chats\"\n"
      "  folioctl quota batch --none");
  command->add_option("tenant", flags->tenant, "The tenant, or \"\" for requests without one")
      ->required();
  command->add_option("--sequences", flags->sequences,
                      "Sequences that are open, parked ones and orphans included");
  command->add_option("--pages", flags->pages, "Pages that these may come to need together");
  command->add_option("--requests_per_minute", flags->requests_per_minute,
                      "Requests that may begin in a minute, all at once after a pause");
  command->add_flag("--none", flags->none, "Take the quota away");
  flags->reason.Add(*command);
  SetAction(command, SetQuota, flags, context);
}

}  // namespace folio::cli
