// ReadMessages reads the messages of a chat.
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_MESSAGES_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_MESSAGES_H_

#include "folio/v1/inference.pb.h"
#include "services/gateway/openai/field_reader.h"

namespace folio::gateway {

// Content may be a string, null, or a list of parts of text, which are joined by line breaks. The
// role developer becomes system, which templates know. Arguments of tool calls become objects, as
// templates want them. All fields that are not role and content are passed on to the template.
// Errors are the reader's.
void ReadMessages(FieldReader& fields, v1::Chat* chat);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_MESSAGES_H_
