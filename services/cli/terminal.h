// Terminal is a command's view of its surroundings, which are its streams, the terminal behind them
// and Ctrl-C.
#ifndef FOLIO_SERVICES_CLI_TERMINAL_H_
#define FOLIO_SERVICES_CLI_TERMINAL_H_

#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace folio::cli {

// Ctrl-C as commands see it. Any thread may call Raise, but a signal handler may not.
class Interrupts {
 public:
  // `otherwise` runs if no handler takes the interrupt.
  explicit Interrupts(std::function<void()> otherwise) : otherwise_(std::move(otherwise)) {}

  void Raise() ABSL_LOCKS_EXCLUDED(mu_);
  // True once an interrupt was handled since the last Clear.
  bool raised() const ABSL_LOCKS_EXCLUDED(mu_);
  void Clear() ABSL_LOCKS_EXCLUDED(mu_);

  // While it lives, `handler` takes interrupts, in the raising thread. Scopes nest, and the newest
  // one handles them. The destructor waits for a handler that runs.
  class Scope {
   public:
    Scope(Interrupts* interrupts, std::function<void()> handler);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Interrupts* const interrupts_;
    std::function<void()> previous_;
  };

 private:
  const std::function<void()> otherwise_;
  mutable absl::Mutex mu_;
  std::function<void()> handler_ ABSL_GUARDED_BY(mu_);
  bool raised_ ABSL_GUARDED_BY(mu_) = false;
};

// Borrows everything.
struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  Interrupts& interrupts;
  bool in_is_tty = false;
  bool out_is_tty = false;
  bool err_is_tty = false;
  bool color = false;  // of `out`
  bool utf8 = false;   // block characters may be drawn
  int width = 80;      // columns of `out`

  // `text` with control characters made visible if it goes to a terminal, so that a model's output
  // cannot control the terminal. Line breaks and tabs stay.
  std::string Printable(absl::string_view text) const;
  // Emphasised and faint text, plain without colour.
  std::string Bold(absl::string_view text) const;
  std::string Faint(absl::string_view text) const;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_TERMINAL_H_
