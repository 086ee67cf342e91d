// CrushAnchor is the point that KVCrush measures distances from: one bit for each KV head and token
// of an item (see kv_crush.h). Pure, so any thread may call.
#ifndef FOLIO_SERVICES_POLICY_CRUSH_ANCHOR_H_
#define FOLIO_SERVICES_POLICY_CRUSH_ANCHOR_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "services/base/split_mix.h"

namespace folio::policy {

enum class CrushAnchor : uint8_t {
  kMean,         // 1 where more than half of the candidates have a 1
  kAlternating,  // 0, 1, 0, 1, ...
  kZeros,
  kOnes,
  kRandom,  // bit i is the top bit of the i-th number of SplitMix64(seed)
};

// Bit h * tokens + t is for head h and token t of the item, as signatures are laid out. Anchors
// count bits token by token. `ones(bit)` is how many of the `candidates` have that bit; only kMean
// asks for it.
inline std::vector<bool> AnchorBits(CrushAnchor anchor, uint64_t seed, uint32_t heads,
                                    uint32_t tokens, uint64_t candidates,
                                    absl::FunctionRef<uint64_t(uint32_t)> ones) {
  std::vector<bool> bits(size_t{heads} * tokens);
  SplitMix64 random(seed);
  for (uint32_t i = 0; i < bits.size(); ++i) {
    const uint32_t bit = i % heads * tokens + i / heads;
    switch (anchor) {
      case CrushAnchor::kMean:
        bits[bit] = 2 * ones(bit) > candidates;
        break;
      case CrushAnchor::kAlternating:
        bits[bit] = i % 2 == 1;
        break;
      case CrushAnchor::kZeros:
        break;
      case CrushAnchor::kOnes:
        bits[bit] = true;
        break;
      case CrushAnchor::kRandom:
        bits[bit] = random.Next() >> 63 != 0;
        break;
    }
  }
  return bits;
}

}  // namespace folio::policy

#endif  // FOLIO_SERVICES_POLICY_CRUSH_ANCHOR_H_
