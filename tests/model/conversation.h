// A script with everything an executor can be asked for: sequences of all kinds of scores, chunked
// prompts, decoding in others, compaction, dropped blocks, slots that are used again.
#ifndef FOLIO_TESTS_MODEL_CONVERSATION_H_
#define FOLIO_TESTS_MODEL_CONVERSATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/tp_harness.h"

namespace folio::model::testing {

// What came of it. Scores of the resident tokens, both channels, layer 0 and the others apart:
// there they do not depend on what ranks have summed.
struct Transcript {
  std::vector<uint32_t> tokens;
  std::vector<float> logprobs;
  std::vector<float> first_layer, other_layers;
};

struct Nearness {
  float logprob;
  float score;  // relative
  bool exact_first_layer;
};

// Plays it for a model of TinyConfig's kind. `forced`: decode steps are fed other tokens than were
// sampled, so that arithmetic that differs stays comparable. Returns what went wrong.
std::string Play(Stage& stage, const ModelConfig& config, bool forced, Transcript& transcript);

// What differs, or nothing.
std::string Compare(const Transcript& one, const Transcript& other, const Nearness& nearness);

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_CONVERSATION_H_
