// Screen has the whole terminal while it lives: it draws lines in place and reads keys. Its end
// gives the terminal back as it was, and so does a signal that ends the process.
//
// One thread. There may be one Screen in a process at a time.
#ifndef FOLIO_SERVICES_CLI_SCREEN_H_
#define FOLIO_SERVICES_CLI_SCREEN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace folio::cli {

struct ScreenSize {
  int width = 80;
  int height = 24;
  bool operator==(const ScreenSize&) const = default;
};

struct Key {
  enum class Name : uint8_t {
    kCharacter,
    kEnter,
    kEscape,
    kBackspace,
    kUp,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kInterrupt,  // Ctrl-C
  };
  Name name = Name::kCharacter;
  char character = '\0';  // of kCharacter
};

// The first key of `bytes`, which come from a terminal, and how many bytes it takes. Nothing if
// they begin with something else.
struct ParsedKey {
  std::optional<Key> key;
  size_t bytes = 0;
};
ParsedKey ParseKey(const std::string& bytes);

class Screen {
 public:
  // Takes over the terminal at standard input and output. Check with Start whether that worked.
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // FAILED_PRECONDITION: standard input or output is not a terminal.
  absl::Status Start();

  ScreenSize size() const;
  // Draws the lines from the top. They replace those of before.
  void Draw(const std::vector<std::string>& lines);
  // Waits for a key. Returns nothing after the time, or when the terminal has another size.
  std::optional<Key> ReadKey(absl::Duration wait);

 private:
  void Enter();
  void Leave();

  bool started_ = false;
  std::string unread_;  // bytes of keys
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_SCREEN_H_
