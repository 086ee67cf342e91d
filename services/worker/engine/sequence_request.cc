#include "services/worker/engine/sequence_request.h"

#include "services/wire/output_options.h"

namespace folio::worker {

OpenSequence OpenOf(uint64_t tag, const SequenceRequest& request) {
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
          .output = wire::Serialize(output)};
}

ClaimSequence ClaimOf(uint64_t tag, const SequenceRequest& request) {
  return {.request_tag = tag,
          .sequence = request.resume->sequence,
          .resume_token = request.resume_token};
}

}  // namespace folio::worker
