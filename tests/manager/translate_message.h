// TranslateMessage gives a session's request to a translator as the gRPC service does: through the
// protocol's messages.
#ifndef FOLIO_TESTS_MANAGER_TRANSLATE_MESSAGE_H_
#define FOLIO_TESTS_MANAGER_TRANSLATE_MESSAGE_H_

#include "absl/status/statusor.h"
#include "folio/v1/kv_manager.pb.h"
#include "services/manager/session_translator.h"
#include "services/wire/session.h"

namespace folio::testing {

inline absl::StatusOr<v1::SessionReply> TranslateMessage(manager::SessionTranslator& translator,
                                                         const v1::SessionRequest& request) {
  const absl::StatusOr<SessionReply> reply = translator.Translate(wire::FromProto(request));
  if (!reply.ok()) return reply.status();
  return wire::ToProto(*reply);
}

}  // namespace folio::testing

#endif  // FOLIO_TESTS_MANAGER_TRANSLATE_MESSAGE_H_
