// folioctl token makes a token for a caller, and the line that lets a daemon know it.
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "services/access/sha256.h"
#include "services/cli/command.h"
#include "services/cli/exit_code.h"

namespace folio::cli {
namespace {

struct MakeTokenFlags {
  std::string tenant = "-";
  std::string right;
  std::string file;
};

// 64 hexadecimal digits of 32 random bytes.
absl::StatusOr<std::string> NewToken() {
  std::array<char, 32> bytes = {};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return absl::InternalError("the system gives no random bytes");
  }
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

// A new file that only its owner may read.
absl::Status WriteTokenFile(const std::string& path, const std::string& token) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string text = token + "\n";
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int why = errno;
  if (file >= 0) close(file);
  if (written) return absl::OkStatus();
  const std::string words = absl::StrCat(path, ": ", std::strerror(why));
  if (why == EEXIST) return absl::AlreadyExistsError(words);
  return why == EACCES ? absl::PermissionDeniedError(words) : absl::UnknownError(words);
}

absl::Status MakeToken(const MakeTokenFlags& flags, Context& context) {
  if (flags.tenant == "-" && flags.right.empty()) {
    return UsageError("give a tenant, or --right view or steer, or both");
  }
  const auto token = NewToken();
  if (!token.ok()) return token.status();
  const std::string hash = absl::BytesToHexString(access::Sha256(*token));
  std::string line = absl::StrCat("token sha256:", hash, " ", flags.tenant);
  if (!flags.right.empty()) absl::StrAppend(&line, " ", flags.right);
  if (!flags.file.empty()) {
    if (absl::Status s = WriteTokenFile(flags.file, *token); !s.ok()) return s;
  }
  if (context.structured()) {
    nlohmann::ordered_json answer = {{"line", line}};
    if (flags.file.empty()) answer["token"] = *token;
    return context.Print(answer);
  }
  if (flags.file.empty()) {
    context.terminal.out << "Token, for the caller alone:\n"
                         << *token << "\n\nLine for --access:\n";
  }
  context.terminal.out << line << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddToken(CLI::App& root, Context& context) {
  auto flags = std::make_shared<MakeTokenFlags>();
  CLI::App* command = AddCommand(
      root, "token",
      "Make a token of 256 random bits, and the line that lets a worker and a manager with\n"
      "--access know it. Nothing is sent, and the line holds the token's SHA-256 alone",
      "  folioctl token alice\n"
      "  folioctl token alice --out alice.token >> access.txt\n"
      "  folioctl token --right view");
  command->add_option("tenant", flags->tenant,
                      "The tenant of the caller, * for any, or - for none (the default)");
  command
      ->add_option("--right", flags->right, "The caller may look (view), or look and act (steer)")
      ->check(CLI::IsMember({"view", "steer"}));
  command->add_option("--out", flags->file,
                      "New file that gets the token, which is not printed then");
  command->callback([flags, &context] {
    context.needs_addresses = false;
    context.action = [flags, &context] { return MakeToken(*flags, context); };
  });
}

}  // namespace folio::cli
