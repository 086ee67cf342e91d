#include "tests/worker/lost_while_parked.h"

#include <gtest/gtest.h>

#include <atomic>

namespace folio::worker::testing {

LostSequence LoseWhileParked(EngineHarness& harness, const Ask& ask, bool swapped) {
  constexpr char kToken[] = "0123456789abcdef";
  std::atomic<bool> parked = false;
  harness.link().observer = [&](const SessionRequest& sent, const SessionReply&) {
    for (const ParkSequence& park : sent.park) {
      if ((swapped && !park.swapped) || parked.exchange(true)) continue;
      harness.link().Break(absl::UnavailableError("killed"));
    }
  };
  harness.Start();
  SequenceRequest request = Make(ask);
  request.report_evictions = false;
  request.resume_token = kToken;
  Recorder older, lost;
  older.on_event = [&](const v1::GenerateResponse& event) {
    if (event.has_started()) harness.Push(request, &lost);
  };
  harness.Push(Make({.prompt = 100, .seed = 1, .max_new_tokens = 330}), &older);
  EXPECT_TRUE(older.Wait() && lost.Wait());
  EXPECT_TRUE(absl::IsUnavailable(lost.status)) << lost.status;
  EXPECT_FALSE(harness.Join().ok());
  EXPECT_TRUE(parked);
  LostSequence result;
  result.tokens = lost.tokens;
  result.resume.resume_token = kToken;
  result.resume.resume = {SequenceId(lost.started.sequence_id()), {}};
  for (const uint32_t id : lost.tokens) result.resume.resume->received.emplace_back(id);
  harness.NextWorker();
  return result;
}

}  // namespace folio::worker::testing
