// ToolCallReader finds the calls of tools in an answer that comes in pieces. A model that was
// trained in the manner of Hermes or Qwen writes each call as a JSON object between the tags
// <tool_call> and </tool_call>. The object has the fields "name" and "arguments".
#ifndef FOLIO_SERVICES_GATEWAY_OPENAI_TOOL_CALLS_H_
#define FOLIO_SERVICES_GATEWAY_OPENAI_TOOL_CALLS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace folio::gateway {

struct ToolCall {
  std::string id;  // "call_" and hexadecimal digits
  std::string name;
  std::string arguments;  // JSON
};

// A piece of a call for a streaming client. The first of a call has its id and name.
struct ToolCallPiece {
  size_t index = 0;  // of the call in the answer
  std::string id;
  std::string name;
  std::string arguments;
};

// Thread-compatible.
class ToolCallReader {
 public:
  struct Found {
    std::string text;  // that belongs to no call
    std::vector<ToolCall> calls;
  };

  // For an answer that has no tags and is one call as a whole. Before Feed.
  void ExpectCall() { untagged_ = true; }
  // The text that follows. Text that could be the beginning of a tag is held back. A call is found
  // when its closing tag has come.
  Found Feed(absl::string_view text);
  // The answer has ended. A call without its closing tag counts if its JSON is whole, and is text
  // otherwise. An answer that is one call may have been cut off: what has come of its arguments
  // counts once its name has.
  Found Finish();
  // Calls found so far.
  size_t count() const { return count_; }

 private:
  // Adds the call that `json` says, or the text as it was.
  void AddCall(absl::string_view json, absl::string_view as_it_was, Found* found);

  std::string held_;  // not given out yet
  size_t count_ = 0;
  bool untagged_ = false;
};

// A new id of a call.
std::string NewToolCallId();

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_OPENAI_TOOL_CALLS_H_
