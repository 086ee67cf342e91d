#include "services/manager/open_request.h"

#include <cstddef>

#include "services/base/fair_turns.h"
#include "services/base/invalid_argument.h"
#include "services/base/protocol.h"
#include "services/manager/text_size.h"
#include "services/wire/sampling_check.h"

namespace folio::manager {
namespace {

// 128 bits cannot be guessed. Above the maximum a token only costs memory.
constexpr size_t kMinResumeToken = 16;
constexpr size_t kMaxResumeToken = 64;
constexpr size_t kMaxOutputBytes = size_t{96} << 10;

absl::Status CheckSizes(const OpenSequence& open) {
  absl::Status status = CheckTextSize("label", open.label, kMaxLabelBytes);
  status.Update(CheckTextSize("tenant", open.tenant, kMaxTenantBytes));
  if (!status.ok()) return status;
  const size_t token = open.resume_token.size();
  if (token != 0 && (token < kMinResumeToken || token > kMaxResumeToken)) {
    return InvalidArgument("resume_token: has ", token, " bytes; give none, or from ",
                           kMinResumeToken, " to ", kMaxResumeToken);
  }
  return CheckTextSize("output", open.output, kMaxOutputBytes);
}

}  // namespace

// The ids of the prompt are not judged, and neither is the length against a model's context: the
// manager has no model and knows neither vocabulary nor context. It only keeps the ids for a worker
// that claims the sequence, and that worker checks them (services/worker/engine/claim_record.h).
absl::StatusOr<cache::OpenRequest> MakeOpenRequest(const OpenSequence& open, WorkerId worker,
                                                   const CacheRules& rules) {
  if (absl::Status status = CheckSizes(open); !status.ok()) return status;
  if (open.urgency.priority < -kMaxPriority || open.urgency.priority > kMaxPriority) {
    return InvalidArgument("priority: is ", open.urgency.priority, "; give a number from -",
                           kMaxPriority, " to ", kMaxPriority);
  }
  auto sampling = wire::CheckSampling(open.sampling);
  if (!sampling.ok()) return sampling.status();
  v1::CacheOptions options;
  if (!options.ParseFromString(open.cache.bytes)) {
    return InvalidArgument("cache: is not a CacheOptions message");
  }
  const RequestShape shape = {open.prompt.size(), open.max_new_tokens.value(), sampling->seed};
  auto config = CacheConfigFromProto(options, rules, shape);
  if (!config.ok()) return config.status();
  return cache::OpenRequest{.worker = worker,
                            .prompt = open.prompt,
                            .max_new_tokens = open.max_new_tokens,
                            .cache = *std::move(config),
                            .metadata = {.sampling = *sampling,
                                         .label = open.label,
                                         .resume_token = open.resume_token,
                                         .output = open.output},
                            .waits_for_room = open.waits_for_room,
                            .abilities = {.prefill_ahead = open.prefill_ahead,
                                          .parks = open.may_be_parked,
                                          .streams = open.compacts_in_prefill,
                                          .swaps = open.may_be_swapped},
                            .urgency = open.urgency,
                            .tenant = open.tenant};
}

}  // namespace folio::manager
