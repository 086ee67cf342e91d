// These functions convert the events of a sequence to the messages that its client receives. They
// are pure and may be called from any thread.
#ifndef FOLIO_SERVICES_WORKER_RPC_EVENT_MESSAGES_H_
#define FOLIO_SERVICES_WORKER_RPC_EVENT_MESSAGES_H_

#include "folio/v1/inference.pb.h"
#include "services/worker/engine/events.h"

namespace folio::worker {

folio::v1::GenerateResponse ToProto(Event event);

// Adds to the answer of a Score call what the event says about the scored tokens.
void AddToProto(Event event, folio::v1::ScoreResponse* response);

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RPC_EVENT_MESSAGES_H_
