// Resumption is the memory of a generation by which another worker continues it when its own is
// lost, and by which it is asked for again when its sequence is gone too. It is for the clients of
// this folder.
#ifndef FOLIO_SERVICES_CLIENT_RESUMPTION_H_
#define FOLIO_SERVICES_CLIENT_RESUMPTION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/inference.pb.h"
#include "services/base/steady_time.h"
#include "services/client/call.h"

namespace folio::client {

// The pause before each attempt to continue a generation. Before attempts to replay it, each pause
// is twice as long as the one before, up to the longest.
inline constexpr absl::Duration kResumePause = absl::Milliseconds(100);
inline constexpr absl::Duration kLongestReplayPause = absl::Seconds(1);

// A generation is replayed so often at most.
inline constexpr uint32_t kMaxReplays = 3;

// Not thread-safe.
class Resumption {
 public:
  // It takes `resume`, `replay` and the deadline of `options`.
  Resumption(const folio::v1::GenerateRequest& request, const CallOptions& options);

  // Takes each event of each attempt, in their order. False if the caller has it already. The end
  // gets the number of replays.
  bool Take(folio::v1::GenerateResponse* event);
  // The worker cannot replay the request, and answers something else. The attempt must be
  // cancelled.
  bool misunderstood() const { return misunderstood_; }

  // An attempt has ended with `status`. Whether another one may follow after `pause`. The time
  // counts from the first question after an event that brought the generation forward, so that
  // attempts also end if each worker is lost as soon as it has the sequence.
  //
  // gRPC itself gives CANCELLED to a call that reaches a worker in the moment in which the worker
  // ends, so `cancelled` tells whether the client has cancelled the call.
  bool Follows(const absl::Status& status, bool cancelled);
  absl::Duration pause() const;
  // Whether it goes to the same worker, which has said that the sequence is gone, and so lives.
  bool stays() const { return replaying_ && replay_attempts_ == 0; }
  // The request of the next attempt.
  folio::v1::GenerateRequest NextRequest();
  // The status of a generation whose last attempt ended with `last`.
  absl::Status Ended(absl::Status last) const;

  bool finished() const { return finished_; }
  uint32_t replays() const { return replays_; }

 private:
  bool TakeStarted(const folio::v1::Started& started, bool first);
  bool HasTime();

  const absl::Duration time_;
  const SteadyTime deadline_;
  const bool keeps_request_;
  folio::v1::GenerateRequest request_;  // cleared once the generation has begun, unless it is kept
  folio::v1::Resume resume_;            // as of the last event
  uint64_t seed_ = 0;
  std::string fingerprint_;  // of the model that began
  uint32_t prefilled_ = 0;
  bool begun_ = false;  // an event has come that is not about waiting for room
  bool finished_ = false;

  std::optional<absl::Status> lost_;  // why, until another attempt has begun
  bool asked_ = false;                // and whether there was one since
  std::optional<SteadyTime> until_;

  bool replaying_ = false;  // the next attempt replays, or the one that was just made
  bool misunderstood_ = false;
  uint32_t replays_ = 0;
  uint32_t replay_attempts_ = 0;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_RESUMPTION_H_
