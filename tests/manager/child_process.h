// ChildProcess starts a program for a test, sends it signals, and reads its output and its end. The
// destructor kills it.
#ifndef FOLIO_TESTS_MANAGER_CHILD_PROCESS_H_
#define FOLIO_TESTS_MANAGER_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "services/base/unique_fd.h"

namespace folio::testing {

class ChildProcess {
 public:
  // argv[0] is the program's path. stdout and stderr are read by ReadLine and Output.
  explicit ChildProcess(const std::vector<std::string>& argv);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const;

  // Reads until a line contains `text`, and returns that line; empty when output ends or 20 s pass.
  std::string ReadUntil(const std::string& text);
  // Waits for the end. Returns the exit code or 128 + signal, and -1 if it still runs after
  // `timeout`.
  int Wait(absl::Duration timeout = absl::Seconds(20));
  // All it said so far; complete after Wait.
  const std::string& output() const { return output_; }

 private:
  // False at the end of output or the deadline.
  bool ReadSome(absl::Time deadline);

  pid_t pid_ = -1;
  bool ended_ = false;
  UniqueFd out_;
  std::string output_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_MANAGER_CHILD_PROCESS_H_
