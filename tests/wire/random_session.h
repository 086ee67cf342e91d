// RandomSession makes random requests and replies of a session, in the shapes that a worker and a
// manager may send.
#ifndef FOLIO_TESTS_WIRE_RANDOM_SESSION_H_
#define FOLIO_TESTS_WIRE_RANDOM_SESSION_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "folio/v1/kv_manager.pb.h"
#include "services/base/session_types.h"

namespace folio::wire {

class RandomSession {
 public:
  RandomSession(uint64_t seed, uint32_t num_layers) : random_(seed), num_layers_(num_layers) {}

  SessionRequest Request();
  SessionReply Reply();

 private:
  // Small numbers are as frequent as large ones.
  uint32_t Number() { return Below(2) == 0 ? Below(1000) : static_cast<uint32_t>(random_()); }
  uint64_t Number64() { return Below(2) == 0 ? Below(1000) : random_(); }
  uint32_t Below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }
  float Fraction() { return static_cast<float>(Below(1 << 20)) / (1 << 20); }
  std::string Text() { return std::string(Below(20), static_cast<char>('a' + Below(26))); }

  PageList Pages();
  LayerPageLists PageLists();
  std::vector<ClaimedLayer> ClaimedLayers();
  std::vector<SwapSlot> Slots();
  std::vector<TokenId> Tokens();
  CacheOptionsBytes Options(v1::CacheOptions* options);
  ResolvedCache Resolved();
  std::string Output();
  SamplingParameters Sampling();
  LogitChanges Changes();
  ScoreNeed Scores();
  absl::Status Failure();
  OpenSequence Open();
  UnparkResult Unparked();
  CommitTokens Commit();
  Plan AnyPlan();
  Plan Drop();
  OpenResult Opened();
  ClaimResult Claimed();

  std::mt19937_64 random_;
  const uint32_t num_layers_;
};

}  // namespace folio::wire

#endif  // FOLIO_TESTS_WIRE_RANDOM_SESSION_H_
