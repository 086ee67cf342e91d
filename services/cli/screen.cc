#include "services/cli/screen.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace folio::cli {
namespace {

// The alternate screen without a cursor, and back. Lines do not wrap meanwhile.
constexpr char kEnter[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr char kLeave[] = "\033[?7h\033[?25h\033[?1049l";

// A signal handler reaches nothing else than what is global.
termios at_start;
volatile sig_atomic_t changed = 0;

void WriteAll(const char* text, size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = write(STDOUT_FILENO, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    bytes -= static_cast<size_t>(written);
  }
}

void Restore() {
  WriteAll(kLeave, sizeof(kLeave) - 1);
  tcsetattr(STDIN_FILENO, TCSANOW, &at_start);
}

// All calls are safe in a signal handler. The handler is reset before it runs (SA_RESETHAND).
void OnDeath(int signal) {
  Restore();
  raise(signal);
}

void OnChange(int /*signal*/) { changed = 1; }

constexpr std::array<int, 3> kDeaths = {SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array<int, 2> kChanges = {SIGWINCH, SIGCONT};

struct Sequence {
  const char* bytes;
  Key::Name name;
};
constexpr std::array<Sequence, 13> kSequences = {{{"\033[A", Key::Name::kUp},
                                                  {"\033[B", Key::Name::kDown},
                                                  {"\033OA", Key::Name::kUp},
                                                  {"\033OB", Key::Name::kDown},
                                                  {"\033[5~", Key::Name::kPageUp},
                                                  {"\033[6~", Key::Name::kPageDown},
                                                  {"\033[H", Key::Name::kHome},
                                                  {"\033[F", Key::Name::kEnd},
                                                  {"\033OH", Key::Name::kHome},
                                                  {"\033OF", Key::Name::kEnd},
                                                  {"\033[1~", Key::Name::kHome},
                                                  {"\033[4~", Key::Name::kEnd},
                                                  {"\r", Key::Name::kEnter}}};

}  // namespace

ParsedKey ParseKey(const std::string& bytes) {
  for (const Sequence& one : kSequences) {
    if (absl::StartsWith(bytes, one.bytes)) {
      return {Key{one.name}, std::string(one.bytes).size()};
    }
  }
  const char first = bytes[0];
  if (first == '\n') return {Key{Key::Name::kEnter}, 1};
  if (first == '\003') return {Key{Key::Name::kInterrupt}, 1};
  if (first == '\177' || first == '\b') return {Key{Key::Name::kBackspace}, 1};
  if (first == '\033') {
    if (bytes.size() == 1) return {Key{Key::Name::kEscape}, 1};
    if (bytes[1] != '[' && bytes[1] != 'O') return {Key{Key::Name::kEscape}, 1};
    // A sequence that stands for nothing here ends with a letter or "~".
    size_t end = 2;
    while (end < bytes.size() && (bytes[end] < '@' || bytes[end] > '~')) ++end;
    return {std::nullopt, std::min(end + 1, bytes.size())};
  }
  if (first >= ' ' && first < '\177') return {Key{Key::Name::kCharacter, first}, 1};
  return {std::nullopt, 1};
}

Screen::Screen() = default;

absl::Status Screen::Start() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1 ||
      tcgetattr(STDIN_FILENO, &at_start) != 0) {
    return absl::FailedPreconditionError("standard input or output is not a terminal");
  }
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = OnDeath;
  action.sa_flags = SA_RESETHAND | SA_NODEFER;
  for (const int signal : kDeaths) sigaction(signal, &action, nullptr);
  action.sa_handler = OnChange;
  action.sa_flags = 0;
  for (const int signal : kChanges) sigaction(signal, &action, nullptr);
  Enter();
  started_ = true;
  return absl::OkStatus();
}

Screen::~Screen() {
  if (!started_) return;
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = SIG_DFL;
  for (const int signal : kDeaths) sigaction(signal, &action, nullptr);
  for (const int signal : kChanges) sigaction(signal, &action, nullptr);
  Leave();
}

void Screen::Enter() {
  termios raw = at_start;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_iflag &= ~static_cast<tcflag_t>(ICRNL | IXON);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  WriteAll(kEnter, sizeof(kEnter) - 1);
}

void Screen::Leave() { Restore(); }

ScreenSize Screen::size() const {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    return {};
  }
  return {size.ws_col, size.ws_row};
}

void Screen::Draw(const std::vector<std::string>& lines) {
  std::string frame = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&frame, i == 0 ? "" : "\r\n", lines[i], "\033[K");
  }
  absl::StrAppend(&frame, "\033[J");
  WriteAll(frame.data(), frame.size());
}

std::optional<Key> Screen::ReadKey(absl::Duration wait) {
  if (unread_.empty()) {
    pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    poll(&keys, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)));
    std::array<char, 64> bytes;
    const ssize_t got = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (got > 0) unread_.assign(bytes.data(), static_cast<size_t>(got));
    // The terminal is gone, and reads from it end at once.
    if (got == 0 && (keys.revents & (POLLHUP | POLLERR)) != 0) return Key{Key::Name::kInterrupt};
  }
  if (std::exchange(changed, 0) != 0) Enter();
  while (!unread_.empty()) {
    const ParsedKey parsed = ParseKey(unread_);
    unread_.erase(0, parsed.bytes);
    if (parsed.key.has_value()) return parsed.key;
  }
  return std::nullopt;
}

}  // namespace folio::cli
