#include "services/wire/sampling.h"

namespace folio::wire {

SamplingParameters FromProto(const v1::SamplingParams& sampling) {
  SamplingParameters out;
  out.temperature = sampling.temperature();
  out.top_k = sampling.top_k();
  if (sampling.has_top_p()) out.top_p = sampling.top_p();
  out.min_p = sampling.min_p();
  if (sampling.has_seed()) out.seed = sampling.seed();
  return out;
}

v1::SamplingParams ToProto(const SamplingParameters& sampling) {
  v1::SamplingParams out;
  out.set_temperature(sampling.temperature);
  out.set_top_k(sampling.top_k);
  if (sampling.top_p.has_value()) out.set_top_p(*sampling.top_p);
  out.set_min_p(sampling.min_p);
  if (sampling.seed.has_value()) out.set_seed(*sampling.seed);
  return out;
}

}  // namespace folio::wire
