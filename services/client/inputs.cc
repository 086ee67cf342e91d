#include "services/client/inputs.h"

namespace folio::client {

folio::v1::Input Text(absl::string_view text) {
  folio::v1::Input input;
  input.set_text(std::string(text));
  return input;
}

folio::v1::Input Tokens(absl::Span<const uint32_t> ids) {
  folio::v1::Input input;
  input.mutable_tokens()->mutable_ids()->Add(ids.begin(), ids.end());
  return input;
}

folio::v1::Input Chat(const std::vector<ChatTurn>& turns, const ChatExtras& extras) {
  folio::v1::Input input;
  auto* chat = input.mutable_chat();
  for (const ChatTurn& turn : turns) {
    auto* message = chat->add_messages();
    message->set_role(turn.role);
    message->set_content(turn.content);
    message->set_fields(turn.fields);
  }
  chat->set_tools(extras.tools);
  chat->set_template_arguments(extras.template_arguments);
  return input;
}

folio::v1::Input Ask(absl::string_view question, absl::string_view system) {
  std::vector<ChatTurn> turns;
  if (!system.empty()) turns.push_back({"system", std::string(system)});
  turns.push_back({"user", std::string(question)});
  return Chat(turns);
}

folio::v1::CacheOptions FullCache() {
  folio::v1::CacheOptions cache;
  cache.mutable_policy()->mutable_full();
  return cache;
}

folio::v1::CacheOptions PagedEviction(uint32_t budget_tokens) {
  folio::v1::CacheOptions cache;
  cache.mutable_policy()->mutable_paged_eviction();
  cache.set_budget_tokens(budget_tokens);
  return cache;
}

folio::v1::CacheOptions StreamingLlm(uint32_t budget_tokens) {
  folio::v1::CacheOptions cache;
  cache.mutable_policy()->mutable_streaming_llm();
  cache.set_budget_tokens(budget_tokens);
  return cache;
}

}  // namespace folio::client
