// Commands that have a manager act: the orders that it gets, and what is said of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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

TEST(Steer, AQuotaNamesTheTenantAndItsLimits) {
  ScriptedAdmin admin;
  const CliResult both = Folioctl({"quota", "batch", "--sequences", "4", "--pages=2000", "--reason",
                                   "days", "--address", admin.address()});
  EXPECT_EQ(both.out, "Tenant \"batch\" may have at most 4 sequences and 2,000 pages open.\n")
      << both.err;
  EXPECT_EQ(Folioctl({"quota", "", "--sequences", "1", "--address", admin.address()}).out,
            "Requests without a tenant may have at most 1 sequence open.\n");
  EXPECT_EQ(Folioctl({"quota", "batch", "--none", "--address", admin.address()}).out,
            "Tenant \"batch\" has no quota.\n");
  EXPECT_THAT(
      admin.orders(),
      ElementsAre("SetQuotaRequest tenant: \"batch\" quota { sequences: 4 pages: 2000 } reason: "
                  "\"days\"",
                  "SetQuotaRequest quota { sequences: 1 }",
                  "SetQuotaRequest tenant: \"batch\" quota { }"));
  const CliResult rate = Folioctl({"quota", "batch", "--requests_per_minute", "60", "--pages", "9",
                                   "--address", admin.address()});
  EXPECT_EQ(rate.out,
            "Tenant \"batch\" may have at most 9 pages open, and may begin at most 60 requests a "
            "minute.\n");
  EXPECT_EQ(admin.orders().back(),
            "SetQuotaRequest tenant: \"batch\" quota { pages: 9 requests_per_minute: 60 }");
  EXPECT_EQ(
      Folioctl({"quota", "batch", "--pages", "0", "--output", "yaml", "--address", admin.address()})
          .out,
      "tenant: batch\norder: quota\npages: 0\n");
}

TEST(Steer, AQuotaNeedsALimitOrNone) {
  ScriptedAdmin admin;
  for (const std::vector<std::string>& flags :
       std::vector<std::vector<std::string>>{{}, {"--none", "--pages", "5"}, {"--pages", "-1"}}) {
    std::vector<std::string> command = {"quota", "batch", "--address", admin.address()};
    command.insert(command.end(), flags.begin(), flags.end());
    EXPECT_EQ(Folioctl(command).code, 2);
  }
  EXPECT_THAT(admin.orders(), IsEmpty());
}

TEST(Steer, JsonListsWhatWasOrdered) {
  ScriptedAdmin admin;
  const CliResult result =
      Folioctl({"park", "7", "--output", "yaml", "--address", admin.address()});
  EXPECT_EQ(result.out, "- sequence_id: \"7\"\n  order: park\n");
}

TEST(Steer, ABudgetIsLoweredAndTheAnswerTellsWhatGoes) {
  ScriptedAdmin admin;
  const CliResult lowered = Folioctl({"evict", "7", "8", "--budget", "2048", "--reason",
                                      "a long day", "--address", admin.address()});
  EXPECT_EQ(lowered.code, 0) << lowered.err;
  EXPECT_EQ(
      lowered.out,
      "Sequence 7 may keep 2,048 tokens in each layer. 1,234 pages go with its next steps.\n"
      "Sequence 8 may keep 2,048 tokens in each layer. 1,234 pages go with its next steps.\n");
  EXPECT_THAT(admin.orders(),
              ElementsAre("LowerBudgetRequest sequence_id: 7 budget_tokens: 2048 reason: \"a long "
                          "day\"",
                          "LowerBudgetRequest sequence_id: 8 budget_tokens: 2048 reason: \"a long "
                          "day\""));
  admin.pages_over_budget = 1;
  EXPECT_EQ(Folioctl({"evict", "7", "--budget=64", "--address", admin.address()}).out,
            "Sequence 7 may keep 64 tokens in each layer. 1 page goes with its next steps.\n");
  admin.pages_over_budget = 0;
  EXPECT_EQ(Folioctl({"evict", "7", "--budget=64", "--address", admin.address()}).out,
            "Sequence 7 may keep 64 tokens in each layer. It has no more now.\n");
}

TEST(Steer, TheAnswerToEvictIsForProgramsToo) {
  ScriptedAdmin admin;
  const std::vector<std::string> order = {"evict", "7",         "--budget",
                                          "64",    "--address", admin.address()};
  std::vector<std::string> yaml = order;
  yaml.insert(yaml.end(), {"--output", "yaml"});
  EXPECT_EQ(Folioctl(yaml).out,
            "- sequence_id: \"7\"\n  order: evict\n  budget_tokens: 64\n"
            "  pages_over_budget: 1234\n");
  std::vector<std::string> json = order;
  json.insert(json.end(), {"--output", "json"});
  EXPECT_THAT(Folioctl(json).out, HasSubstr("\"pages_over_budget\": 1234"));
}

TEST(Steer, EvictNeedsABudgetThatIsANumber) {
  ScriptedAdmin admin;
  const CliResult missing = Folioctl({"evict", "7", "--address", admin.address()});
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, HasSubstr("--budget is required"));
  for (const char* budget : {"-1", "half", "25%", "4294967296"}) {
    const CliResult wrong =
        Folioctl({"evict", "7", "--budget", budget, "--address", admin.address()});
    EXPECT_EQ(wrong.code, 2) << budget;
    EXPECT_THAT(wrong.err, HasSubstr("--budget")) << budget;
  }
  EXPECT_THAT(admin.orders(), IsEmpty());
  admin.steering = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "budget_tokens 8 is too low");
  const CliResult low = Folioctl({"evict", "7", "--budget", "8", "--address", admin.address()});
  EXPECT_EQ(low.code, 5);
  EXPECT_THAT(low.err, HasSubstr("budget_tokens 8 is too low"));
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
