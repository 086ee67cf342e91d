#include "tests/testing/in_process_link.h"

namespace folio::testing {

InProcessLink::InProcessLink(cache::Coordinator& coordinator, WorkerId worker,
                             const manager::CacheRules& rules, uint32_t lag)
    : translator_(coordinator, worker, rules), lag_(lag) {}

uint64_t InProcessLink::Send(SessionRequest request) {
  const uint64_t step = ++last_step_;
  if (!inbox_.status().ok()) return step;
  request.step = step;
  absl::StatusOr<SessionReply> reply = translator_.Translate(request);
  if (!reply.ok()) {
    inbox_.Fail(reply.status());
    return step;
  }
  if (observer) observer(request, *reply);
  late_.push_back({tries_ + lag_, *std::move(reply)});
  return step;
}

std::optional<SessionReply> InProcessLink::TryReceive() {
  ++tries_;
  if (late_.empty() || late_.front().ready >= tries_) return std::nullopt;
  std::optional<SessionReply> reply(std::move(late_.front().reply));
  late_.pop_front();
  return reply;
}

std::optional<SessionReply> InProcessLink::Receive(SteadyTime deadline) {
  if (late_.empty()) return inbox_.Pop(deadline);
  std::optional<SessionReply> reply(std::move(late_.front().reply));
  late_.pop_front();
  return reply;
}

}  // namespace folio::testing
