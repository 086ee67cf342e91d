// Commands that have a manager act: the orders that it gets, and what is said of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/cli/run_cli.h"
#include "tests/client/scripted_admin.h"

namespace folio::cli {
namespace {

using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::ScriptedAdmin;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Steer, OrdersNameTheSequencesAndTheReason) {
  ScriptedAdmin admin;
  const CliResult closed =
      Folioctl({"close", "7", "8", "--reason", "too long", "--address", admin.address()});
  EXPECT_EQ(closed.code, 0) << closed.err;
  EXPECT_EQ(closed.out,
            "Sequence 7 is to end. Its client gets ABORTED.\n"
            "Sequence 8 is to end. Its client gets ABORTED.\n");
  EXPECT_EQ(Folioctl({"park", "9", "--address", admin.address()}).code, 0);
  EXPECT_EQ(Folioctl({"pin", "9", "--address", admin.address()}).code, 0);
  EXPECT_EQ(Folioctl({"unpin", "9", "--address", admin.address()}).code, 0);
  EXPECT_THAT(admin.orders(),
              ElementsAre("CloseSequenceRequest sequence_id: 7 reason: \"too long\"",
                          "CloseSequenceRequest sequence_id: 8 reason: \"too long\"",
                          "ParkSequenceRequest sequence_id: 9", "PinSequenceRequest sequence_id: 9",
                          "PinSequenceRequest sequence_id: 9 undo: true"));
}

TEST(Steer, JsonListsWhatWasOrdered) {
  ScriptedAdmin admin;
  const CliResult result =
      Folioctl({"park", "7", "--output", "yaml", "--address", admin.address()});
  EXPECT_EQ(result.out, "- sequence_id: \"7\"\n  order: park\n");
}

TEST(Steer, ARefusalHasItsExitCode) {
  ScriptedAdmin admin;
  admin.steering = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "it is pinned");
  const CliResult one = Folioctl({"park", "7", "--address", admin.address()});
  EXPECT_EQ(one.code, 8);
  EXPECT_THAT(one.err, HasSubstr("it is pinned"));
  EXPECT_EQ(one.out, "");
  const CliResult two = Folioctl({"park", "7", "8", "--address", admin.address()});
  EXPECT_EQ(two.code, 8);
  EXPECT_THAT(two.err, HasSubstr("sequence 8: it is pinned"));
}

TEST(Steer, DrainsAndEndsThat) {
  ScriptedAdmin admin;
  EXPECT_EQ(Folioctl({"drain", "--address", admin.address()}).out,
            "The manager takes no new sequences. 3 sequences run there.\n");
  EXPECT_EQ(Folioctl({"drain", "--worker", "w2", "--undo", "--address", admin.address()}).out,
            "Worker w2 takes new sequences again. 3 sequences run there.\n");
  EXPECT_THAT(admin.orders(),
              ElementsAre("DrainRequest ", "DrainRequest worker_id: \"w2\" undo: true"));
}

TEST(Steer, AQuarantineIsReleasedOnlyByOneWhoVouches) {
  ScriptedAdmin admin;
  const CliResult unsure = Folioctl({"quarantine", "release", "w3", "--address", admin.address()});
  EXPECT_EQ(unsure.code, 2);
  EXPECT_THAT(unsure.err, HasSubstr("--i_know_the_process_ended"));
  EXPECT_THAT(admin.orders(), IsEmpty());
  const CliResult sure = Folioctl(
      {"quarantine", "release", "w3", "--i-know-the-process-ended", "--address", admin.address()});
  EXPECT_EQ(sure.code, 0) << sure.err;
  EXPECT_EQ(sure.out, "1,234 pages of worker w3 are free now.\n");
  EXPECT_THAT(admin.orders(), ElementsAre("ReleaseQuarantineRequest worker_id: \"w3\" "
                                          "process_has_ended: true"));
}

}  // namespace
}  // namespace folio::cli
