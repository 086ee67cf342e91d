// folioctl doctor finds out what is wrong with Folio's processes and this machine, and what to do.
// folioctl support-bundle writes all of it into an archive.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/cli/archive.h"
#include "services/cli/command.h"
#include "services/cli/diagnosis.h"
#include "services/cli/format.h"
#include "services/cli/table.h"
#include "services/runtime/version.h"

namespace folio::cli {
namespace {

absl::Status Verdict(const Diagnosis& found) {
  if (!found.failed()) return absl::OkStatus();
  std::vector<std::string> wrong;
  for (const Check& check : found.checks) {
    if (check.health == Health::kFail) wrong.push_back(check.name);
  }
  return absl::FailedPreconditionError(absl::StrCat("not well: ", absl::StrJoin(wrong, ", ")));
}

std::string RenderChecks(const Checks& checks, const Terminal& terminal) {
  Table table({{"check"}, {"health"}, {"found"}});
  for (const Check& check : checks) {
    table.Row({check.name, HealthName(check.health), check.found});
  }
  std::string text = table.Render(terminal);
  bool title = true;
  for (const Check& check : checks) {
    if (check.health == Health::kOk || check.advice.empty()) continue;
    absl::StrAppend(&text, title ? "\n" : "", check.name, ": ", check.advice, "\n");
    title = false;
  }
  return text;
}

absl::Status Doctor(Context& context) {
  const Diagnosis found = Diagnose(context, Host());
  Terminal& terminal = context.terminal;
  absl::Status status;
  if (context.structured()) {
    status = context.Print(ToJson(found.checks));
  } else {
    terminal.out << terminal.Printable(RenderChecks(found.checks, terminal));
  }
  status.Update(Verdict(found));
  return status;
}

// A flag's value that might be a secret.
std::string WithoutSecrets(const std::string& arguments) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(arguments, '\n', absl::SkipEmpty())) {
    const std::string name = absl::AsciiStrToLower(line.substr(0, line.find('=')));
    bool secret = false;
    for (const char* word : {"token", "secret", "password", "key"}) {
      secret = secret || absl::StrContains(name, word);
    }
    absl::StrAppend(&text, secret ? absl::StrCat(name, "=(left out)") : line, "\n");
  }
  return text;
}

std::string DescribeHost(const Host& host) {
  utsname name = {};
  uname(&name);
  std::string text = absl::StrCat(name.sysname, " ", name.release, " ", name.machine, "\n\n");
  for (const char* file :
       {"/etc/os-release", "/proc/meminfo", "/proc/swaps", "/proc/self/limits",
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled", "/proc/driver/nvidia/version"}) {
    absl::StrAppend(&text, "# ", file, "\n", host.Read(file).value_or("(not there)\n"), "\n");
  }
  return text;
}

// The command lines of the processes that the manager names, as far as they run here.
std::string DescribeFlags(const Diagnosis& found, const Host& host) {
  std::string text;
  const auto add = [&](uint32_t pid, const std::string& name) {
    if (!host.IsProcess(pid, name)) return;
    absl::StrAppend(&text, "# ", name, ", pid ", pid, "\n", WithoutSecrets(host.Arguments(pid)),
                    "\n");
  };
  if (found.manager.has_value()) add(found.manager->pid(), "folio-manager");
  if (found.workers.has_value()) {
    for (const auto& worker : found.workers->workers()) {
      for (const auto& process : worker.processes()) {
        add(static_cast<uint32_t>(process.pid()), "folio-worker");
      }
    }
  }
  return text.empty() ? "No process of Folio is to be seen from here.\n" : text;
}

// One event a line, or why there are none.
std::string Events(const Context& context) {
  const auto client = context.ConnectManager();
  if (!client.ok()) return absl::StrCat(client.status().message(), "\n");
  folio::v1::WatchEventsRequest request;
  for (int kind = 1; kind <= folio::v1::EventKind_MAX; ++kind) {
    request.add_kinds(static_cast<folio::v1::EventKind>(kind));
  }
  client::CallOptions call = context.Call();
  call.deadline = std::min(call.deadline, SteadyNow() + absl::Seconds(10));
  client::EventStream events = (*client)->WatchEvents(request, call);
  std::string text;
  while (const auto event = events.Next()) text += StreamItem(*event, OutputFormat::kJson);
  if (!events.status().ok()) absl::StrAppend(&text, events.status().message(), "\n");
  return text;
}

std::vector<ArchiveFile> BundleFiles(const Diagnosis& found, const Context& context) {
  const Host host;
  std::vector<ArchiveFile> files;
  const auto add = [&](const std::string& name, std::string text) {
    files.push_back({"folio-support/" + name, std::move(text)});
  };
  const auto add_message = [&](const std::string& name, const auto& message) {
    add(name, message.has_value() ? Document(*message, OutputFormat::kJson) : "{}\n");
  };
  add("version.txt", absl::StrCat("folioctl ", BuildDescription(), "\n"));
  add("doctor.json", Document(ToJson(found.checks), OutputFormat::kJson));
  add_message("manager.json", found.manager);
  add_message("pools.json", found.pools);
  add_message("workers.json", found.workers);
  add_message("tenants.json", found.tenants);
  add_message("sequences.json", found.sequences);
  add_message("model.json", found.model);
  add("events.jsonl", Events(context));
  add("flags.txt", DescribeFlags(found, host));
  add("host.txt", DescribeHost(host));
  return files;
}

absl::Status Bundle(const std::string& path, Context& context) {
  const Diagnosis found = Diagnose(context, Host());
  const std::vector<ArchiveFile> files = BundleFiles(found, context);
  if (absl::Status status = WriteArchive(path, files); !status.ok()) return status;
  if (context.structured()) {
    auto names = nlohmann::ordered_json::array();
    for (const ArchiveFile& file : files) {
      names.push_back({{"name", file.name}, {"bytes", file.contents.size()}});
    }
    return context.Print(nlohmann::ordered_json{{"file", path}, {"contents", names}});
  }
  Table table({{"file"}, {"size", kRight}});
  for (const ArchiveFile& file : files) {
    table.Row({file.name, FormatBytes(file.contents.size())});
  }
  context.terminal.out << table.Render(context.terminal) << "\n"
                       << path
                       << " has these files. They have labels, tenants and names of workers, and "
                          "no text or tokens of requests.\n";
  return absl::OkStatus();
}

}  // namespace

void AddDoctor(CLI::App& root, Context& context) {
  CLI::App* command = AddCommand(
      root, "doctor",
      "Check processes, limits and this machine: what is wrong, and what to do about it. Fails if\n"
      "something does not work (worker and manager)",
      "  folioctl doctor\n  folioctl doctor --output json");
  SetAction(command, Doctor, context);
}

void AddSupportBundle(CLI::App& root, Context& context) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = AddCommand(
      root, "support-bundle",
      "Write what doctor finds, all lists, the events and the flags of the daemons into an "
      "archive\n"
      "for those who help. It has no text and no tokens of requests (worker and manager)",
      "  folioctl support-bundle folio-support.tar.gz");
  command->add_option("file", *path, "The archive, a .tar.gz")->required();
  SetAction(command, Bundle, path, context);
}

}  // namespace folio::cli
