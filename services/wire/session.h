// These functions convert a session's requests and replies between plain values and the protocol's
// messages, in both directions. They are pure and may be called from any thread.
//
// They check shapes, not meaning. A list whose halves differ in length, or an action that does not
// fit `num_layers`, becomes an empty list or action, which the reader refuses with the sequence it
// belongs to; so one malformed item ends one sequence and not the session.
#ifndef FOLIO_SERVICES_WIRE_SESSION_H_
#define FOLIO_SERVICES_WIRE_SESSION_H_

#include <cstdint>

#include "folio/v1/kv_manager.pb.h"
#include "services/base/session_types.h"

namespace folio::wire {

v1::SessionRequest ToProto(const SessionRequest& request);
SessionRequest FromProto(const v1::SessionRequest& request);

v1::SessionReply ToProto(const SessionReply& reply);
SessionReply FromProto(const v1::SessionReply& reply, uint32_t num_layers);

}  // namespace folio::wire

#endif  // FOLIO_SERVICES_WIRE_SESSION_H_
