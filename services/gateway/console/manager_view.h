// ManagerView answers the console's questions about a manager's state. The answers are the messages
// of proto/folio/v1/admin.proto as JSON.
#ifndef FOLIO_SERVICES_GATEWAY_CONSOLE_MANAGER_VIEW_H_
#define FOLIO_SERVICES_GATEWAY_CONSOLE_MANAGER_VIEW_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/client/admin_client.h"

namespace folio::gateway {

// Thread-safe. One thread asks the manager, so that many pages in browsers cost the manager no more
// than one of them.
class ManagerView {
 public:
  // May be called by a thread of the view.
  using Answer = std::function<void(absl::StatusOr<std::string>)>;

  // Does not wait for the manager, which may come later. INVALID_ARGUMENT if the address is none,
  // or if a file of `options` cannot be used. Only encryption and token of them count.
  static absl::StatusOr<std::unique_ptr<ManagerView>> Connect(absl::string_view address,
                                                              client::ConnectOptions options);
  ~ManagerView();
  ManagerView(const ManagerView&) = delete;
  ManagerView& operator=(const ManagerView&) = delete;

  // `question` is one of
  //   manager, pools, sequences, workers, tenants   the answer of the call of that name
  //   sequences/ID                                  one sequence
  //   pages                                         {"runs": [...]}; layers=1 and scores=1 tell
  //   more events                                        {"events": [...], "lost_events": "0"} of
  //   all
  //                                                 kinds after number `after`, at most the newest
  //                                                 1000
  // and `query` is from an address, such as "layers=1&scores=1". NOT_FOUND: there is no such
  // question or sequence. UNAVAILABLE: the manager cannot be reached, or too many questions wait.
  void Ask(std::string question, std::string query, Answer answer) ABSL_LOCKS_EXCLUDED(mutex_);
  // Questions that wait are answered with UNAVAILABLE, and so are later ones.
  void End() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Question {
    std::string what;
    std::string query;
    Answer answer;
  };

  explicit ManagerView(std::unique_ptr<client::AdminClient> client);
  void Run();
  absl::StatusOr<std::string> Find(const Question& question);
  absl::StatusOr<std::string> Pages(const std::string& query);
  absl::StatusOr<std::string> Events(const std::string& query);

  const std::unique_ptr<client::AdminClient> client_;
  absl::Mutex mutex_;
  std::deque<Question> questions_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_CONSOLE_MANAGER_VIEW_H_
