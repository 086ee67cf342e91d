// LostWorker is a fixture with two workers: one that is lost after two tokens, and another one that
// has the third.
#ifndef FOLIO_TESTS_CLIENT_LOST_WORKER_H_
#define FOLIO_TESTS_CLIENT_LOST_WORKER_H_

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "services/client/call.h"
#include "services/client/inputs.h"
#include "tests/client/scripted_server.h"

namespace folio::client {

inline folio::v1::GenerateRequest Question() {
  folio::v1::GenerateRequest request;
  *request.mutable_input() = Ask("Why?");
  return request;
}

inline CallOptions Resume(absl::Duration time) {
  CallOptions options;
  options.resume = time;
  return options;
}

class LostWorker : public ::testing::Test {
 protected:
  LostWorker() {
    lost_.script.events = folio::testing::AnswerEvents({"one", " two"});
    lost_.script.events[0].mutable_started()->set_resume_token("secret");
    lost_.script.events.pop_back();
    lost_.script.status = {grpc::StatusCode::UNAVAILABLE, "killed"};
    other_.script.events = folio::testing::AnswerEvents({" three"});
    other_.script.events[0].mutable_started()->set_resume_token("secret");
  }

  folio::testing::ScriptedServer lost_, other_;
};

}  // namespace folio::client

#endif  // FOLIO_TESTS_CLIENT_LOST_WORKER_H_
