// Cli runs folioctl in the test's process, with strings as its streams.
#ifndef FOLIO_TESTS_CLI_RUN_CLI_H_
#define FOLIO_TESTS_CLI_RUN_CLI_H_

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "services/cli/app.h"

namespace folio::testing {

struct CliResult {
  int code = 0;
  std::string out;
  std::string err;
};

struct Cli {
  std::string input = {};
  bool terminal = false;  // all three streams are one
  bool color = false;
  bool utf8 = false;
  cli::Interrupts interrupts{[] { std::abort(); }};

  CliResult Run(const std::vector<std::string>& arguments) {
    // The contexts of the machine do not count.
    setenv("FOLIO_CONFIG", "/tmp/folio-nowhere/config.json", /*overwrite=*/0);
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    cli::Terminal streams{in, out, err, interrupts};
    streams.in_is_tty = streams.out_is_tty = streams.err_is_tty = terminal;
    streams.color = color;
    streams.utf8 = utf8;
    const int code = cli::Run(arguments, streams);
    return {code, out.str(), err.str()};
  }

  // Interrupts each of `calls` calls a moment after the server has begun it, as `started` counts.
  CliResult RunInterrupted(const std::vector<std::string>& arguments,
                           const std::atomic<int>& started, int calls = 1) {
    std::thread ctrl_c([&] {
      for (int call = 1; call <= calls; ++call) {
        while (started < call) std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        interrupts.Raise();
      }
    });
    const CliResult result = Run(arguments);
    ctrl_c.join();
    return result;
  }
};

// Runs without a terminal and with empty standard input.
inline CliResult Folioctl(const std::vector<std::string>& arguments) {
  return Cli().Run(arguments);
}

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLI_RUN_CLI_H_
