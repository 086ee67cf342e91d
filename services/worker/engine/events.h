// An Event is one message to the client of a sequence, as a plain value. The step loop makes
// events; services/worker/rpc converts them to the protocol's messages, whose comments in
// inference.proto define the meaning of each field.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_EVENTS_H_
#define FOLIO_SERVICES_WORKER_ENGINE_EVENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "services/base/ids.h"
#include "services/base/session_types.h"

namespace folio::worker {

struct Started {
  SequenceId sequence;
  uint32_t prompt_tokens = 0;
  CacheOptionsBytes cache;  // with every default filled in
  uint64_t seed = 0;
  std::string resume_token;
  uint32_t replayed_tokens = 0;
};

// Tokens of the prompt that have been computed, or the place of a request that waits.
struct Progress {
  uint32_t done_tokens = 0;
  uint32_t total_tokens = 0;
  uint32_t queue_position = 0;  // 1 is the next; 0 once the request has its pages
};

struct Candidate {
  TokenId token;
  float logprob = 0;
  std::string bytes;
};
struct TokenLogprob {
  TokenId token;
  float logprob = 0;
  std::vector<Candidate> top;  // most likely first
  std::string bytes;
};
struct TokenChunk {
  std::string text;  // whole UTF-8 characters
  std::vector<TokenId> tokens;
  std::vector<TokenLogprob> logprobs;  // one per token, or none
};

struct Eviction {
  struct Layer {
    std::vector<Position> kept;               // by a compaction
    std::optional<BlockIndex> dropped_block;  // in decode
  };
  int32_t step =
      -1;  // generated tokens fed back before it happened, less one, or -1 of a compaction
  TokenCount prompt_tokens;  // of a compaction: those that were in the cache
  std::vector<Layer> layers;
};

enum class FinishReason : uint8_t {  // numbers as in the protocol
  kUnspecified = 0,
  kEos = 1,
  kStop = 2,
  kLength = 3,
};
struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t generated_tokens = 0;
  double queue_seconds = 0;
  double prefill_seconds = 0;
  double time_to_first_token = 0;
  double decode_seconds = 0;
};
struct CacheStats {
  uint32_t resident_tokens = 0;
  uint32_t peak_resident_tokens = 0;
  uint32_t held_pages = 0;
  uint32_t peak_held_pages = 0;
  uint64_t resident_bytes = 0;
  uint32_t evicted_tokens = 0;
  uint32_t evicted_pages = 0;
  uint32_t plans = 0;
};
struct Finished {
  FinishReason reason = FinishReason::kUnspecified;
  std::string stop;
  std::optional<TokenId> stop_token = std::nullopt;
  Usage usage;
  CacheStats cache;
};

using Event = std::variant<Started, Progress, TokenChunk, Eviction, Finished>;

// ResultSink receives the events of one sequence. It is called on the step loop's thread and must
// not block. OnEnd is the last call and comes exactly once; if its status is OK, the event before
// it was Finished.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  virtual void OnEvent(Event event) = 0;
  virtual void OnEnd(absl::Status status) = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_EVENTS_H_
