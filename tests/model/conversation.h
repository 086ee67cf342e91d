// Play runs a script with everything that an executor does: sequences with each kind of score,
// chunked prompts, decoding beside prompts, compaction, dropped blocks, and slots that are reused.
#ifndef FOLIO_TESTS_MODEL_CONVERSATION_H_
#define FOLIO_TESTS_MODEL_CONVERSATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/model/tp_harness.h"

namespace folio::model::testing {

// Transcript is the outcome of a script. It holds the scores of the resident tokens in both
// channels. Layer 0 is apart, because its scores do not depend on sums over ranks.
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

// Names the first difference. Returns an empty string if there is none.
std::string Compare(const Transcript& one, const Transcript& other, const Nearness& nearness);

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_CONVERSATION_H_
