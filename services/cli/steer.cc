// folioctl close, park, pin, unpin and drain have a manager act. folioctl tenants shows for whom it
// works.
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/table.h"
#include "services/client/steering.h"

namespace folio::cli {
namespace {

struct ReasonFlags {
  std::string text;

  void Add(CLI::App& command);
};

void ReasonFlags::Add(CLI::App& command) {
  command.add_option("--reason", text,
                     "Why, for the manager's log and its events (at most 256 bytes)");
}

struct SteerFlags {
  std::vector<uint64_t> ids;
  ReasonFlags reason;
  std::string worker;
  bool undo = false;
};

using Order = std::function<absl::Status(client::Steering&, uint64_t id, const std::string& reason,
                                         const client::CallOptions&)>;

// An order for sequences.
struct Verb {
  std::string name;
  Order order;
  std::string done;  // to be said behind "Sequence 7 "
};

absl::Status Steer(const Verb& verb, const SteerFlags& flags, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  client::Steering steering(**client);
  auto ordered = nlohmann::ordered_json::array();
  absl::Status first;
  for (const uint64_t id : flags.ids) {
    const absl::Status status = verb.order(steering, id, flags.reason.text, context.Call());
    if (!status.ok() && flags.ids.size() > 1) {
      context.terminal.err << "folioctl: sequence " << id << ": " << status.message() << "\n";
    }
    first.Update(status);
    if (!status.ok()) continue;
    ordered.push_back({{"sequence_id", absl::StrCat(id)}, {"order", verb.name}});
    if (!context.structured()) {
      context.terminal.out << "Sequence " << id << " " << verb.done << "\n";
    }
  }
  if (context.structured()) context.terminal.out << Document(ordered, context.output);
  return first;
}

void AddVerb(CLI::App& root, Context& context, const std::string& name, const Order& order,
             const std::string& done, const std::string& description, const std::string& examples) {
  const Verb verb = {name, order, done};
  auto flags = std::make_shared<SteerFlags>();
  CLI::App* command = AddCommand(root, name, description, examples);
  command->add_option("id", flags->ids, "Ids of sequences, from folioctl sequences")->required();
  flags->reason.Add(*command);
  command->callback([verb, flags, &context] {
    context.action = [verb, flags, &context] { return Steer(verb, *flags, context); };
  });
}

absl::Status Drain(const SteerFlags& flags, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto left =
      client::Steering(**client).Drain(flags.worker, flags.undo, flags.reason.text, context.Call());
  if (!left.ok()) return left.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) {
    folio::v1::DrainResponse response;
    response.set_sequences(*left);
    out << Document(response, context.output);
    return absl::OkStatus();
  }
  const std::string who =
      flags.worker.empty() ? "The manager" : absl::StrCat("Worker ", flags.worker);
  out << who << (flags.undo ? " takes new sequences again. " : " takes no new sequences. ")
      << FormatCount(*left) << (*left == 1 ? " sequence runs there.\n" : " sequences run there.\n");
  return absl::OkStatus();
}

absl::Status ShowTenants(Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  const auto list = (*client)->ListTenants(context.Call());
  if (!list.ok()) return list.status();
  std::ostream& out = context.terminal.out;
  if (context.structured()) {
    out << Document(*list, context.output);
    return absl::OkStatus();
  }
  if (list->tenants().empty()) {
    out << "No tenant has a sequence or waits for one.\n";
    return absl::OkStatus();
  }
  Table table({{"tenant"},
               {"sequences", kRight},
               {"parked", kRight},
               {"waiting", kRight},
               {"pages", kRight},
               {"KV", kRight}});
  for (const auto& tenant : list->tenants()) {
    table.Row({tenant.tenant().empty() ? "-" : QuotePiece(tenant.tenant()),
               FormatCount(tenant.sequences()), FormatCount(tenant.parked()),
               FormatCount(tenant.waiting()), FormatCount(tenant.held_pages()),
               FormatBytes(tenant.held_bytes())});
  }
  out << table.Render(context.terminal)
      << "\nWaiting are the first requests of the workers' lines. The workers keep the others.\n";
  return absl::OkStatus();
}

}  // namespace

void AddClose(CLI::App& root, Context& context) {
  const Order order = [](client::Steering& steering, uint64_t id, const std::string& reason,
                         const client::CallOptions& call) {
    return steering.Close(id, reason, call);
  };
  AddVerb(root, context, "close", order, "is to end. Its client gets ABORTED.",
          "End sequences, whose clients get ABORTED with the reason (manager)",
          "  folioctl close 12 --reason \"the batch job takes all pages\"\n"
          "  folioctl close 12 13 14");
}

void AddPark(CLI::App& root, Context& context) {
  const Order order = [](client::Steering& steering, uint64_t id, const std::string& reason,
                         const client::CallOptions& call) {
    return steering.Park(id, reason, call);
  };
  AddVerb(root, context, "park", order,
          "is to give its pages back. It continues when there is room.",
          "Have sequences give their pages back, as if the pool had run dry. They continue with\n"
          "the same tokens when there is room, before new requests (manager)",
          "  folioctl park 12");
}

void AddPin(CLI::App& root, Context& context) {
  const Order pin = [](client::Steering& steering, uint64_t id, const std::string& reason,
                       const client::CallOptions& call) {
    return steering.Pin(id, /*undo=*/false, reason, call);
  };
  const Order unpin = [](client::Steering& steering, uint64_t id, const std::string& reason,
                         const client::CallOptions& call) {
    return steering.Pin(id, /*undo=*/true, reason, call);
  };
  AddVerb(root, context, "pin", pin, "is pinned. It is not parked.",
          "Protect sequences from being parked when the pool runs dry (manager)",
          "  folioctl pin 12");
  AddVerb(root, context, "unpin", unpin, "is not pinned.", "End the protection by pin (manager)",
          "  folioctl unpin 12");
}

void AddDrain(CLI::App& root, Context& context) {
  auto flags = std::make_shared<SteerFlags>();
  CLI::App* command = AddCommand(
      root, "drain",
      "Take no new sequences, at all workers or at one. Those that run are not touched (manager)",
      "  folioctl drain --worker w2 --reason \"its GPU is to be replaced\"\n"
      "  folioctl drain --worker w2 --undo\n"
      "  folioctl drain");
  command->add_option("--worker", flags->worker, "The worker's id, from folioctl workers");
  command->add_flag("--undo", flags->undo, "Take new sequences again");
  flags->reason.Add(*command);
  command->callback(
      [flags, &context] { context.action = [flags, &context] { return Drain(*flags, context); }; });
}

void AddTenants(CLI::App& root, Context& context) {
  CLI::App* command = AddCommand(
      root, "tenants", "Tenants, what they hold and which of them wait for pages (manager)",
      "  folioctl tenants\n  folioctl tenants --output json");
  command->callback([&context] { context.action = [&context] { return ShowTenants(context); }; });
}

}  // namespace folio::cli
