// These functions write events into the messages of the Admin service, and read which kinds of them
// an operator wants. They are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_MANAGER_EVENT_MESSAGES_H_
#define FOLIO_SERVICES_MANAGER_EVENT_MESSAGES_H_

#include "absl/status/statusor.h"
#include "folio/v1/admin.pb.h"
#include "services/manager/event.h"

namespace folio::manager {

void WriteEvent(const Event& event, v1::Event* out);

// The kinds of a request. Without any, these are all but those that requests and steps make.
// INVALID_ARGUMENT names an entry that is not a kind.
absl::StatusOr<EventKindSet> EventKindsFromProto(const v1::WatchEventsRequest& request);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_EVENT_MESSAGES_H_
