#include "services/policy/snap_kv.h"

#include <limits>

#include "services/policy/parameters.h"
#include "services/policy/ranking.h"

namespace folio::policy {
namespace {

constexpr float kUnseen = std::numeric_limits<float>::infinity();

}  // namespace

absl::Status SnapKvSpec::Check() const { return CheckWindow("snap_kv", window, pool); }

std::vector<float> SnapKv::BlockScores(const LayerScores& scores) const {
  const uint32_t page_tokens = scores.page_tokens;
  const std::vector<float> tokens = TokenScores(scores);
  const uint32_t whole = scores.scored.value() / page_tokens;
  std::vector<float> blocks = BlockMeans({tokens.data(), size_t{whole} * page_tokens}, page_tokens);
  // The block that the prompt ends in, if decode has filled it.
  const uint32_t rest = scores.scored.value() % page_tokens;
  if (rest > 0 && (whole + 1) * page_tokens <= tokens.size()) {
    blocks.push_back(BlockMeans({&tokens[size_t{whole} * page_tokens], rest}, rest)[0]);
  }
  blocks.resize(tokens.size() / page_tokens, kUnseen);
  return blocks;
}

}  // namespace folio::policy
