// Damaged bytes of requests and replies: what still parses becomes values of the right shape.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "services/wire/session.h"
#include "tests/testing/random_damage.h"
#include "tests/wire/random_session.h"

namespace folio::wire {
namespace {

using ::folio::testing::RandomDamage;

constexpr uint32_t kLayers = 3;
const int kRounds = RandomDamage::Rounds(20'000);

template <typename List>
bool EmptyOrOneForEachLayer(const List& list) {
  return list.empty() || list.size() == kLayers;
}

void ExpectShapes(const SessionReply& reply) {
  for (const OpenResult& opened : reply.opened) EXPECT_TRUE(EmptyOrOneForEachLayer(opened.pages));
  for (const PageGrant& grant : reply.granted) EXPECT_TRUE(EmptyOrOneForEachLayer(grant.pages));
  for (const ClaimResult& claimed : reply.claimed) {
    EXPECT_TRUE(EmptyOrOneForEachLayer(claimed.layers));
  }
  for (const UnparkResult& unparked : reply.unparked) {
    EXPECT_TRUE(EmptyOrOneForEachLayer(unparked.pages));
    EXPECT_TRUE(EmptyOrOneForEachLayer(unparked.swapped));
  }
  for (const Plan& plan : reply.plans) {
    if (const auto* compact = std::get_if<CompactAction>(&plan.action)) {
      EXPECT_TRUE(EmptyOrOneForEachLayer(compact->keep));
      EXPECT_EQ(compact->keep.size(), compact->spare.size());
    } else {
      EXPECT_TRUE(EmptyOrOneForEachLayer(std::get<DropAction>(plan.action).block));
    }
  }
}

// Reads `bytes`, damaged, as a message and gives it to `check`. The result says how many parsed.
template <typename Message, typename Make, typename Check>
int ReadDamaged(RandomDamage& random, const Make& make, const Check& check) {
  const google::protobuf::LogSilencer silent;  // of text that is not UTF-8
  int parsed = 0;
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    const std::string whole = make().SerializeAsString();
    const std::string damaged = random.OneIn(16) ? random.Bytes(random.Below(64))
                                                 : random.Damage(whole, make().SerializeAsString());
    Message message;
    if (!message.ParseFromString(damaged)) continue;
    ++parsed;
    check(message);
  }
  return parsed;
}

TEST(SessionBytes, DamagedRepliesKeepTheShapesOfTheirLists) {
  RandomDamage random;
  SCOPED_TRACE(random.repeat());
  RandomSession session(random.Bits(), kLayers);
  const int parsed = ReadDamaged<v1::SessionReply>(
      random, [&] { return ToProto(session.Reply()); },
      [](const v1::SessionReply& message) {
        const SessionReply reply = FromProto(message, kLayers);
        ExpectShapes(reply);
        // What was read is written and read again without another loss.
        const v1::SessionReply written = ToProto(reply);
        EXPECT_EQ(ToProto(FromProto(written, kLayers)).SerializeAsString(),
                  written.SerializeAsString())
            << message.ShortDebugString();
      });
  EXPECT_GT(parsed, kRounds / 20);
  EXPECT_LT(parsed, kRounds);
}

TEST(SessionBytes, DamagedRequestsAreReadAsTheyAreWritten) {
  RandomDamage random;
  SCOPED_TRACE(random.repeat());
  RandomSession session(random.Bits(), kLayers);
  const int parsed = ReadDamaged<v1::SessionRequest>(
      random, [&] { return ToProto(session.Request()); },
      [](const v1::SessionRequest& message) {
        const v1::SessionRequest written = ToProto(FromProto(message));
        EXPECT_EQ(ToProto(FromProto(written)).SerializeAsString(), written.SerializeAsString())
            << message.ShortDebugString();
      });
  EXPECT_GT(parsed, kRounds / 20);
  EXPECT_LT(parsed, kRounds);
}

}  // namespace
}  // namespace folio::wire
