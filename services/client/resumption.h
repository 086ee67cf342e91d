// Resumption is the memory of a generation by which another worker continues it when its own is
// lost. It is for the clients of this folder.
#ifndef FOLIO_SERVICES_CLIENT_RESUMPTION_H_
#define FOLIO_SERVICES_CLIENT_RESUMPTION_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/inference.pb.h"
#include "services/base/steady_time.h"

namespace folio::client {

// The pause before each attempt to continue a generation.
inline constexpr absl::Duration kResumePause = absl::Milliseconds(100);

// Not thread-safe.
class Resumption {
 public:
  explicit Resumption(const folio::v1::GenerateRequest& request);

  // Takes each event of the generation, in their order.
  void Note(const folio::v1::GenerateResponse& event);

  // Whether the status says that the worker was lost. gRPC itself gives CANCELLED to a call that
  // reaches a worker in the moment in which the worker ends, so `cancelled` tells whether the
  // client has cancelled the call.
  static bool IsLoss(const absl::Status& why, bool cancelled);
  // A generation of which nothing has come begins again elsewhere: no token of it can come twice.
  // One that has begun needs the token that came with it.
  bool Possible() const { return !begun_ || !resume_.resume_token().empty(); }
  // Whether there is time for another pause and an attempt that lasts as long. The time counts
  // from the first question after an event that brought the generation forward, so that attempts
  // also end if each worker is lost as soon as it has the sequence.
  bool HasTime(absl::Duration resume, SteadyTime deadline);
  // The request of the next attempt.
  folio::v1::GenerateRequest NextRequest() const;
  // The status of a generation that was lost because of `why`. `last` is the end of the last
  // attempt, and OK if there was none.
  absl::Status NotResumed(const absl::Status& why, const absl::Status& last) const;

  // An event has come that is not about waiting for room.
  bool begun() const { return begun_; }
  bool finished() const { return finished_; }

 private:
  folio::v1::GenerateRequest request_;  // cleared once the generation has begun
  folio::v1::Resume resume_;            // as of the last event
  bool begun_ = false;
  bool finished_ = false;
  std::optional<SteadyTime> until_;
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_RESUMPTION_H_
