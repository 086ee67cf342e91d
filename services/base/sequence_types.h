// These types describe one sequence between a worker and the manager: the pages and positions of
// its layers, how its tokens are sampled, and the plans that evict from it. They are plain values
// that the coordinator, the worker's step loop and services/wire share.
#ifndef FOLIO_SERVICES_BASE_SEQUENCE_TYPES_H_
#define FOLIO_SERVICES_BASE_SEQUENCE_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "services/base/ids.h"

namespace folio {

// Logical positions [begin, end).
struct PositionRange {
  Position begin;
  Position end;
  friend constexpr bool operator==(const PositionRange&, const PositionRange&) = default;
};

// The pages of one layer in table order, and one such list per layer.
using PageList = std::vector<PageRef>;
using LayerPageLists = std::vector<PageList>;

struct LogitBias {
  TokenId token;
  float bias = 0;
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

// LogitChanges says how logits are changed before a token is sampled. The fields are those of the
// protocol.
struct LogitChanges {
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  std::vector<LogitBias> biases;

  // Whether tokens are penalised because the text has them already.
  bool penalizes() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1;
  }
  friend bool operator==(const LogitChanges&, const LogitChanges&) = default;
};

// The parameters a sampler needs to continue a sequence identically on another worker.
struct SamplingRecord {
  float temperature = 0;  // 0: greedy, the lowest id on ties
  uint32_t top_k = 0;     // 0: all
  float top_p = 1;
  float min_p = 0;
  uint64_t seed = 0;
  LogitChanges changes = {};
  friend bool operator==(const SamplingRecord&, const SamplingRecord&) = default;
};

// Sampling parameters as a client sends them. CheckSampling makes a record of them.
struct SamplingParameters {
  float temperature = 0;
  uint32_t top_k = 0;
  std::optional<float> top_p = std::nullopt;
  float min_p = 0;
  std::optional<uint64_t> seed = std::nullopt;
  LogitChanges changes = {};
  friend bool operator==(const SamplingParameters&, const SamplingParameters&) = default;
};

// CacheOptions of the protocol, serialised. A worker passes on what its client sent and shows the
// client what the manager answered; only the manager reads it.
struct CacheOptionsBytes {
  std::string bytes;
  friend bool operator==(const CacheOptionsBytes&, const CacheOptionsBytes&) = default;
};

struct CompactAction {
  std::vector<std::vector<TokenSlot>> keep;  // [layer][kept], ascending
  std::vector<PageCount> spare;              // [layer] pages that stay behind the survivors
  friend bool operator==(const CompactAction&, const CompactAction&) = default;
};
struct DropAction {
  std::vector<std::optional<BlockIndex>> block;  // [layer]; nullopt where nothing goes
  friend bool operator==(const DropAction&, const DropAction&) = default;
};
// At most one plan waits for a sequence at a time.
struct Plan {
  SequenceId sequence;
  PlanEpoch epoch;
  std::variant<CompactAction, DropAction> action;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_SEQUENCE_TYPES_H_
