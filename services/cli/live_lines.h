// LiveLines shows several runs in progress, a line each. On a terminal the lines are redrawn in
// place. Elsewhere each is printed once, when it is finished.
#ifndef FOLIO_SERVICES_CLI_LIVE_LINES_H_
#define FOLIO_SERVICES_CLI_LIVE_LINES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/cli/terminal.h"

namespace folio::cli {

// Add all lines first. Then any thread may call Show and Finish. Other code must not write to the
// terminal meanwhile.
class LiveLines {
 public:
  explicit LiveLines(Terminal& terminal) : terminal_(terminal) {}

  void Add(std::string name) ABSL_LOCKS_EXCLUDED(mu_);
  // Shows the line's present state on one line of the terminal, only its end if it is long.
  void Show(size_t line, absl::string_view text) ABSL_LOCKS_EXCLUDED(mu_);
  void Finish(size_t line, absl::string_view text) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Line {
    std::string name;
    std::string text;
  };
  std::string Render(const Line& line) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Draw() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Terminal& terminal_;
  absl::Mutex mu_;
  std::vector<Line> lines_ ABSL_GUARDED_BY(mu_);
  bool drawn_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_LIVE_LINES_H_
