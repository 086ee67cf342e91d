// Random values of a session go through the protocol's bytes and come back unchanged.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "services/wire/session.h"
#include "tests/wire/random_session.h"

namespace folio::wire {
namespace {

constexpr int kRounds = 500;

uint64_t Seed() {
  const char* const given = std::getenv("FOLIO_WIRE_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "FOLIO_WIRE_SEED=" << seed << std::endl;
  return seed;
}

// The message as the other process gets it.
template <typename Message>
Message Sent(const Message& message) {
  Message received;
  EXPECT_TRUE(received.ParseFromString(message.SerializeAsString()));
  return received;
}

TEST(SessionRoundTrip, Requests) {
  RandomSession random(Seed(), 3);
  for (int round = 0; round < kRounds; ++round) {
    const SessionRequest request = random.Request();
    const SessionRequest back = FromProto(Sent(ToProto(request)));
    ASSERT_EQ(back, request) << "round " << round << ": " << ToProto(request).ShortDebugString();
  }
}

TEST(SessionRoundTrip, Replies) {
  const uint64_t seed = Seed();
  for (const uint32_t layers : {1U, 2U, 5U}) {
    RandomSession random(seed, layers);
    for (int round = 0; round < kRounds; ++round) {
      const SessionReply reply = random.Reply();
      const SessionReply back = FromProto(Sent(ToProto(reply)), layers);
      ASSERT_EQ(back, reply) << layers << " layers, round " << round << ": "
                             << ToProto(reply).ShortDebugString();
    }
  }
}

// The other way round too, so that no field of a message is forgotten by both directions.
TEST(SessionRoundTrip, EveryFieldOfTheMessagesIsCarried) {
  const uint64_t seed = Seed();
  RandomSession random(seed, 2);
  std::string request_fields, reply_fields;
  for (int round = 0; round < kRounds; ++round) {
    const v1::SessionRequest request = ToProto(random.Request());
    const v1::SessionReply reply = ToProto(random.Reply());
    EXPECT_EQ(ToProto(FromProto(request)).SerializeAsString(), request.SerializeAsString());
    EXPECT_EQ(ToProto(FromProto(reply, 2)).SerializeAsString(), reply.SerializeAsString());
    request_fields += request.DebugString();
    reply_fields += reply.DebugString();
  }
  // The gRPC service reads the hello itself.
  const auto expect_all = [](const google::protobuf::Descriptor* type, const std::string& text) {
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string& name = type->field(i)->name();
      if (name == "hello") continue;
      EXPECT_NE(text.find(name), std::string::npos) << type->full_name() << "." << name;
    }
  };
  for (const auto* type :
       {v1::SessionRequest::descriptor(), v1::OpenSequence::descriptor(),
        v1::ClaimSequence::descriptor(), v1::CommitTokens::descriptor(), v1::AckPlan::descriptor(),
        v1::CloseSequence::descriptor(), v1::StepProgress::descriptor()}) {
    expect_all(type, request_fields);
  }
  for (const auto* type :
       {v1::SessionReply::descriptor(), v1::OpenResult::descriptor(), v1::ClaimResult::descriptor(),
        v1::ClaimResult::Layer::descriptor(), v1::PageGrant::descriptor(),
        v1::EvictionPlan::descriptor(), v1::CompactPlan::Layer::descriptor(),
        v1::DropPagePlan::descriptor(), v1::SequenceError::descriptor(),
        v1::ScoreNeed::descriptor(), v1::LayerPages::descriptor()}) {
    expect_all(type, reply_fields);
  }
}

}  // namespace
}  // namespace folio::wire
