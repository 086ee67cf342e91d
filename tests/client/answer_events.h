// AnswerEvents makes the events of an answer, for servers that follow a script.
#ifndef FOLIO_TESTS_CLIENT_ANSWER_EVENTS_H_
#define FOLIO_TESTS_CLIENT_ANSWER_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "folio/v1/inference.pb.h"

namespace folio::testing {

// The events of an answer in `texts`, between a started and a finished event.
inline std::vector<folio::v1::GenerateResponse> AnswerEvents(
    const std::vector<std::string>& texts) {
  std::vector<folio::v1::GenerateResponse> events(2);
  events[0].mutable_started()->set_sequence_id(7);
  events[0].mutable_started()->set_prompt_tokens(40);
  events[1].mutable_prefill()->set_done_tokens(40);
  events[1].mutable_prefill()->set_total_tokens(40);
  uint32_t token = 100;
  for (const std::string& text : texts) {
    auto* chunk = events.emplace_back().mutable_chunk();
    chunk->set_text(text);
    chunk->add_tokens(token);
    auto* logprob = chunk->add_logprobs();
    logprob->set_token(token++);
    logprob->set_logprob(-0.5F);
  }
  auto* finished = events.emplace_back().mutable_finished();
  finished->set_reason(folio::v1::FINISH_REASON_LENGTH);
  finished->mutable_usage()->set_prompt_tokens(40);
  finished->mutable_usage()->set_generated_tokens(static_cast<uint32_t>(texts.size()));
  return events;
}

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLIENT_ANSWER_EVENTS_H_
