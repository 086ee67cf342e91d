// folioctl close, park, pin, unpin, evict and drain have a manager act.
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "services/cli/command.h"
#include "services/cli/format.h"
#include "services/cli/options.h"
#include "services/client/steering.h"

namespace folio::cli {
namespace {

struct SteerFlags {
  std::vector<uint64_t> ids;
  ReasonFlags reason;
  uint32_t budget = 0;
  std::string worker;
  bool undo = false;
};

// Done is the answer to an order that was carried out.
struct Done {
  std::string text;  // to be said behind "Sequence 7 "
  nlohmann::ordered_json facts =
      nlohmann::ordered_json::object();  // beside the order, for programs
};
using Order = std::function<absl::StatusOr<Done>(
    client::Steering&, uint64_t id, const SteerFlags& flags, const client::CallOptions&)>;
using PlainOrder = std::function<absl::Status(
    client::Steering&, uint64_t id, const std::string& reason, const client::CallOptions&)>;

// An order for sequences.
struct Verb {
  std::string name;
  Order order;
};

absl::Status Steer(const Verb& verb, const SteerFlags& flags, Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return client.status();
  client::Steering steering(**client);
  auto ordered = nlohmann::ordered_json::array();
  absl::Status first;
  for (const uint64_t id : flags.ids) {
    const absl::StatusOr<Done> done = verb.order(steering, id, flags, context.Call());
    if (!done.ok() && flags.ids.size() > 1) {
      context.terminal.err << "folioctl: sequence " << id << ": " << done.status().message()
                           << "\n";
    }
    first.Update(done.status());
    if (!done.ok()) continue;
    ordered.push_back({{"sequence_id", absl::StrCat(id)}, {"order", verb.name}});
    ordered.back().update(done->facts);
    if (!context.structured()) {
      context.terminal.out << "Sequence " << id << " " << done->text << "\n";
    }
  }
  if (context.structured()) first.Update(context.Print(ordered));
  return first;
}

// Returns the command and its flags, to which more may be added.
std::pair<CLI::App*, std::shared_ptr<SteerFlags>> AddVerb(CLI::App& root, Context& context,
                                                          const std::string& name,
                                                          const Order& order,
                                                          const std::string& description,
                                                          const std::string& examples) {
  const Verb verb = {name, order};
  auto flags = std::make_shared<SteerFlags>();
  CLI::App* command = AddCommand(root, name, description, examples);
  command->add_option("id", flags->ids, "Ids of sequences, from folioctl sequences")->required();
  flags->reason.Add(*command);
  command->callback([verb, flags, &context] {
    context.action = [verb, flags, &context] { return Steer(verb, *flags, context); };
  });
  return {command, flags};
}

void AddVerb(CLI::App& root, Context& context, const std::string& name, const PlainOrder& order,
             const std::string& done, const std::string& description, const std::string& examples) {
  const Order ordered = [order, done](client::Steering& steering, uint64_t id,
                                      const SteerFlags& flags,
                                      const client::CallOptions& call) -> absl::StatusOr<Done> {
    absl::Status status = order(steering, id, flags.reason.text, call);
    if (!status.ok()) return status;
    return Done{done};
  };
  AddVerb(root, context, name, ordered, description, examples);
}

absl::StatusOr<Done> LowerBudget(client::Steering& steering, uint64_t id, const SteerFlags& flags,
                                 const client::CallOptions& call) {
  const auto lowered = steering.LowerBudget(id, flags.budget, flags.reason.text, call);
  if (!lowered.ok()) return lowered.status();
  const uint32_t over = lowered->pages_over_budget();
  Done done;
  done.text = absl::StrCat(
      "may keep ", FormatCount(lowered->cache().budget_tokens()), " tokens in each layer. ",
      over == 0 ? "It has no more now."
                : absl::StrCat(FormatCount(over), over == 1 ? " page goes" : " pages go",
                               " with its next steps."));
  done.facts = {{"budget_tokens", lowered->cache().budget_tokens()}, {"pages_over_budget", over}};
  return done;
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
    return context.Print(response);
  }
  const std::string who =
      flags.worker.empty() ? "The manager" : absl::StrCat("Worker ", flags.worker);
  out << who << (flags.undo ? " takes new sequences again. " : " takes no new sequences. ")
      << FormatCount(*left) << (*left == 1 ? " sequence runs there.\n" : " sequences run there.\n");
  return absl::OkStatus();
}

}  // namespace

void AddClose(CLI::App& root, Context& context) {
  const PlainOrder order = [](client::Steering& steering, uint64_t id, const std::string& reason,
                              const client::CallOptions& call) {
    return steering.Close(id, reason, call);
  };
  AddVerb(root, context, "close", order, "is to end. Its client gets ABORTED.",
          "End sequences, whose clients get ABORTED with the reason (manager)",
          "  folioctl close 12 --reason \"the batch job takes all pages\"\n"
          "  folioctl close 12 13 14");
}

void AddPark(CLI::App& root, Context& context) {
  const PlainOrder order = [](client::Steering& steering, uint64_t id, const std::string& reason,
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
  const PlainOrder pin = [](client::Steering& steering, uint64_t id, const std::string& reason,
                            const client::CallOptions& call) {
    return steering.Pin(id, /*undo=*/false, reason, call);
  };
  const PlainOrder unpin = [](client::Steering& steering, uint64_t id, const std::string& reason,
                              const client::CallOptions& call) {
    return steering.Pin(id, /*undo=*/true, reason, call);
  };
  AddVerb(root, context, "pin", pin, "is pinned. It is not parked.",
          "Protect sequences from being parked when the pool runs dry (manager)",
          "  folioctl pin 12");
  AddVerb(root, context, "unpin", unpin, "is not pinned.", "End the protection by pin (manager)",
          "  folioctl unpin 12");
}

void AddEvict(CLI::App& root, Context& context) {
  const auto [command, flags] = AddVerb(
      root, context, "evict", LowerBudget,
      "Lower the budget of sequences. Their policies then evict pages with their next steps,\n"
      "until each layer is within it. A budget is not raised again (manager)",
      "  folioctl evict 12 --budget 512\n"
      "  folioctl evict 12 --budget 256 --reason \"the pool is needed for the day\"");
  command
      ->add_option("--budget", flags->budget,
                   "Tokens that each layer keeps, rounded up to whole pages")
      ->required();
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
  SetAction(command, Drain, flags, context);
}

}  // namespace folio::cli
