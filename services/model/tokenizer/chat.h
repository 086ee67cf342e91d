// Message is a part of a chat before a model's template renders it, ChatOptions is what else the
// template gets, and ChatText is the rendered chat.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_CHAT_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_CHAT_H_

#include <cstddef>
#include <string>
#include <vector>

namespace folio::model {

struct Message {
  std::string role;
  std::string content;
  // A JSON object of more fields for the template, such as tool_calls or name, or empty for none.
  // Role and content cannot be among them.
  std::string fields = {};
};

// Values for the template besides the messages.
struct ChatOptions {
  // A JSON array of tools, as OpenAI's API has them. If it is empty, the template's `tools` is
  // none, as Hugging Face passes it.
  std::string tools;
  // A JSON object of further variables, or empty for none. It cannot have kGivenVariables, which
  // this library gives.
  std::string arguments;
};

inline constexpr const char* kGivenVariables[] = {
    "messages",  "tools",           "add_generation_prompt", "bos_token",
    "eos_token", "raise_exception", "strftime_now"};

// The JSON values of fields, tools and arguments together, and how deep they are nested. Each takes
// memory of the template's budget, and nested ones are read by calls within calls.
inline constexpr size_t kMaxChatValues = 20'000;
inline constexpr int kMaxChatDepth = 64;

// ChatText is a chat as the model's template renders it.
struct ChatText {
  std::string text;
  // Offsets in `text`, ascending, each inside the text of a special token that a message or another
  // value of the chat contains.
  std::vector<size_t> cuts;
};

}  // namespace folio::model

#endif  // FOLIO_SERVICES_MODEL_TOKENIZER_CHAT_H_
