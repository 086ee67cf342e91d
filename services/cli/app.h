// Run is folioctl as a function, so that tests run it in their own process.
#ifndef FOLIO_SERVICES_CLI_APP_H_
#define FOLIO_SERVICES_CLI_APP_H_

#include <string>
#include <vector>

#include "services/cli/terminal.h"

namespace folio::cli {

// Runs one command (`arguments` without the program's name) and returns the process's exit code.
// Answers go to terminal.out, everything else to terminal.err.
int Run(const std::vector<std::string>& arguments, Terminal& terminal);

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_APP_H_
