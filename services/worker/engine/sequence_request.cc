#include "services/worker/engine/sequence_request.h"

#include "services/wire/output_options.h"

namespace folio::worker {

OpenSequence OpenOf(uint64_t tag, const SequenceRequest& request, TokenCount prefill_ahead) {
  wire::OutputOptions output;
  output.stop = request.stop;
  output.ignore_eos = request.ignore_eos;
  if (request.top_logprobs >= 0) output.logprobs = static_cast<uint32_t>(request.top_logprobs);
  return {.request_tag = tag,
          .prompt = request.prompt,
          .max_new_tokens = TokenCount(request.max_new_tokens),
          .cache = request.cache,
          .sampling = request.sampling,
          .label = request.label,
          .resume_token = request.resume_token,
          .output = wire::Serialize(output),
          .waits_for_room = true,
          .prefill_ahead = prefill_ahead,
          .may_be_parked = true,
          .compacts_in_prefill = true,
          .urgency = {request.priority, SteadyNow() - request.arrival},
          .tenant = request.tenant};
}

ClaimSequence ClaimOf(uint64_t tag, const SequenceRequest& request, TokenCount prefill_ahead) {
  return {.request_tag = tag,
          .sequence = request.resume->sequence,
          .resume_token = request.resume_token,
          .prefill_ahead = prefill_ahead,
          .may_be_parked = true,
          .compacts_in_prefill = true};
}

size_t MostBytes(const OpenSequence& open) {
  constexpr size_t kIdBytes = 4;       // of a vocabulary's ids, see wire/session_limits.h
  constexpr size_t kOtherBytes = 256;  // fields of a fixed size, and the sizes of the others
  return open.prompt.size() * kIdBytes + open.cache.bytes.size() + open.output.size() +
         open.label.size() + open.tenant.size() + open.resume_token.size() + kOtherBytes;
}

}  // namespace folio::worker
