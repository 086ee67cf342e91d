#include "services/wire/sampling.h"

namespace folio::wire {

SamplingParameters FromProto(const v1::SamplingParams& sampling) {
  SamplingParameters out;
  out.temperature = sampling.temperature();
  out.top_k = sampling.top_k();
  if (sampling.has_top_p()) out.top_p = sampling.top_p();
  out.min_p = sampling.min_p();
  if (sampling.has_seed()) out.seed = sampling.seed();
  out.changes.presence_penalty = sampling.presence_penalty();
  out.changes.frequency_penalty = sampling.frequency_penalty();
  if (sampling.has_repetition_penalty()) {
    out.changes.repetition_penalty = sampling.repetition_penalty();
  }
  for (const v1::LogitBias& bias : sampling.logit_bias()) {
    out.changes.biases.push_back({TokenId(bias.token()), bias.bias()});
  }
  return out;
}

v1::SamplingParams ToProto(const SamplingParameters& sampling) {
  v1::SamplingParams out;
  out.set_temperature(sampling.temperature);
  out.set_top_k(sampling.top_k);
  if (sampling.top_p.has_value()) out.set_top_p(*sampling.top_p);
  out.set_min_p(sampling.min_p);
  if (sampling.seed.has_value()) out.set_seed(*sampling.seed);
  const LogitChanges& changes = sampling.changes;
  out.set_presence_penalty(changes.presence_penalty);
  out.set_frequency_penalty(changes.frequency_penalty);
  if (changes.repetition_penalty != 1) out.set_repetition_penalty(changes.repetition_penalty);
  for (const LogitBias& bias : changes.biases) {
    v1::LogitBias* const message = out.add_logit_bias();
    message->set_token(bias.token.value());
    message->set_bias(bias.bias);
  }
  return out;
}

}  // namespace folio::wire
