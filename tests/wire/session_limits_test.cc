// The largest requests that a worker may send are below the limit of the manager.
#include "services/wire/session_limits.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "services/wire/session.h"

namespace folio::wire {
namespace {

constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMost64 = std::numeric_limits<uint64_t>::max();

TEST(SessionLimits, TheLongestPromptFits) {
  SessionRequest request;
  request.step = kMost64;
  OpenSequence& open = request.open.emplace_back();
  open.request_tag = kMost64;
  open.prompt.assign(kMaxPromptTokens, TokenId((1u << 24) - 1));
  open.max_new_tokens = TokenCount(kMost);
  // Bytes of an unknown field, which the manager keeps.
  v1::CacheOptions padded;
  std::string junk(kMaxCacheOptionsBytes - 4, 'x');
  padded.GetReflection()->MutableUnknownFields(&padded)->AddLengthDelimited(1000)->swap(junk);
  open.cache.bytes = padded.SerializeAsString();
  ASSERT_GE(open.cache.bytes.size(), kMaxCacheOptionsBytes);
  open.label = std::string(256, 'l');
  open.tenant = std::string(64, 't');
  open.resume_token = std::string(64, 'r');
  v1::OutputOptions output;
  output.add_stop(std::string(16384 - 4, 's'));
  open.output = output.SerializeAsString();
  EXPECT_LE(ToProto(request).ByteSizeLong(), kMaxSessionRequestBytes);
}

TEST(SessionLimits, TheFullestCommitFits) {
  SessionRequest request;
  request.step = kMost64;
  for (int sequence = 0; sequence < 1024; ++sequence) {
    CommitTokens& commit = request.commit.emplace_back();
    commit.sequence = SequenceId(kMost64);
    commit.lease_epoch = LeaseEpoch(kMost);
    commit.logical_length = TokenCount(kMost);
    commit.sampled = {TokenId(kMost)};
    commit.filled.assign(1024, PageRef{PageId(kMost), Generation(kMost)});
  }
  const size_t bytes = ToProto(request).ByteSizeLong();
  EXPECT_LE(bytes, kMaxSessionRequestBytes);
  EXPECT_GT(bytes, size_t{14} << 20) << "the numbers are as long as they can be";
}

}  // namespace
}  // namespace folio::wire
