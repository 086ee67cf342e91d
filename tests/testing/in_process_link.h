// InProcessLink is a manager link that calls a coordinator in the same process, through the
// manager's own translator. Only the stream is missing.
#ifndef FOLIO_TESTS_TESTING_IN_PROCESS_LINK_H_
#define FOLIO_TESTS_TESTING_IN_PROCESS_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "services/base/steady_time.h"
#include "services/cache/coordinator.h"
#include "services/manager/session_translator.h"
#include "services/worker/link/manager_link.h"
#include "services/worker/link/reply_inbox.h"

namespace folio::testing {

// The coordinator works inside Send, on the caller's thread. Only Send renews the lease.
class InProcessLink final : public worker::ManagerLink {
 public:
  // A reply can be received only after TryReceive was called `lag` times in vain, so that tests can
  // make a slow manager that is equally slow each time. Receive does not lag.
  InProcessLink(cache::Coordinator& coordinator, WorkerId worker, const manager::CacheRules& rules,
                uint32_t lag = 0);

  uint64_t Send(SessionRequest request) override;
  std::optional<SessionReply> TryReceive() override;
  std::optional<SessionReply> Receive(SteadyTime deadline) override;
  void Wake() override { inbox_.Wake(); }
  absl::Status status() const override { return inbox_.status(); }

  // Ends the link as a broken stream would. Thread-safe.
  void Break(absl::Status why) { inbox_.Fail(std::move(why)); }

  // Sees each request and its reply before the step loop does; set before use.
  std::function<void(const SessionRequest&, const SessionReply&)> observer;

 private:
  struct Late {
    uint64_t ready;  // count of TryReceive calls
    SessionReply reply;
  };

  manager::SessionTranslator translator_;
  const uint32_t lag_;
  uint64_t last_step_ = 0;
  uint64_t tries_ = 0;
  std::deque<Late> late_;
  worker::ReplyInbox inbox_;  // for Wake and the end
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_TESTING_IN_PROCESS_LINK_H_
