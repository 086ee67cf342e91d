// main connects the process's streams, terminal and Ctrl-C to services/cli/app.h.
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "services/cli/app.h"
#include "services/cli/exit_code.h"

namespace {

bool EnvironmentSays(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// As in other programs, the first of these variables that is set names the character set.
bool LocaleIsUtf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!EnvironmentSays(name)) continue;
    const std::string locale = std::getenv(name);
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

int TerminalWidth() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

// The status of a call says why it failed, and gRPC would write the same to the terminal before.
// A user who sets GRPC_VERBOSITY asks for all that it has to say.
void KeepGrpcQuiet() { setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0); }

}  // namespace

int main(int argc, char** argv) {
  KeepGrpcQuiet();
  // One thread handles Ctrl-C, so that a handler may lock and make calls, which a signal handler
  // may not.
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_BLOCK, &interrupt, nullptr);
  // Static, because the watching thread lives as long as the process.
  static folio::cli::Interrupts interrupts([] { _exit(folio::cli::kExitInterrupted); });
  std::thread([interrupt] {
    int signal = 0;
    while (sigwait(&interrupt, &signal) == 0) interrupts.Raise();
  }).detach();

  const bool out_is_tty = isatty(STDOUT_FILENO) == 1;
  folio::cli::Terminal terminal{
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr,
      .interrupts = interrupts,
      .in_is_tty = isatty(STDIN_FILENO) == 1,
      .out_is_tty = out_is_tty,
      .err_is_tty = isatty(STDERR_FILENO) == 1,
      .color = out_is_tty && !EnvironmentSays("NO_COLOR"),
      .utf8 = LocaleIsUtf8(),
      .width = TerminalWidth(),
  };
  return folio::cli::Run({argv + 1, argv + argc}, terminal);
}
