#include "kernels/cuda/attention/hopper.h"

namespace folio::kernels::cuda::attention {

HopperKernel* FindHopperKernel(DataType type, uint32_t head_dim) {
  constexpr auto kBf16 = DataType::kBf16, kFp16 = DataType::kFp16;
  if (type == kBf16 && head_dim == 64) return RunHopperTile<kBf16, 64>;
  if (type == kBf16 && head_dim == 128) return RunHopperTile<kBf16, 128>;
  if (type == kFp16 && head_dim == 64) return RunHopperTile<kFp16, 64>;
  if (type == kFp16 && head_dim == 128) return RunHopperTile<kFp16, 128>;
  return nullptr;
}

}  // namespace folio::kernels::cuda::attention
