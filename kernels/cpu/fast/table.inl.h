// MakeTable is the table of all kernels for a vector type V. This file is included after the vector
// type, inside the anonymous namespace of a file that is compiled for one instruction set.

// Each of these files uses the ones before it.
// clang-format off
#include "kernels/cpu/fast/gemm.inl.h"
#include "kernels/cpu/fast/rows.inl.h"
#include "kernels/cpu/fast/attention.inl.h"
#include "kernels/cpu/fast/decode.inl.h"
#include "kernels/cpu/fast/scores.inl.h"
#include "kernels/cpu/fast/unrotated.inl.h"
// clang-format on

template <class V>
constexpr KernelTable MakeTable(const char* name) {
  return {.name = name,
          .lanes = V::kLanes,
          .group_rows = V::kGroupRows,
          .linear = LinearKernel<V>,
          .gated = {GatedKernel<V, Activation::kSilu>, GatedKernel<V, Activation::kGelu>},
          .put = PutKernel<V>,
          .gate = {GateKernel<V, Activation::kSilu>, GateKernel<V, Activation::kGelu>},
          .embed = EmbedKernel<V>,
          .rms_norm = RmsNormKernel<V>,
          .rope_append = RopeAppendKernel<V>,
          .pack_keys = PackKeysKernel<V>,
          .pack_values = PackValuesKernel<V>,
          .flash = FlashKernel<V>,
          .decode = DecodeKernel<V>,
          .merge = MergeKernel<V>,
          .add_directions = AddDirectionsKernel<V>,
          .project = ProjectKernel<V>,
          .add_unrotated = AddUnrotatedKernel<V>,
          .project_unrotated = ProjectUnrotatedKernel<V>,
          .keep_shares = KeepSharesKernel<V>,
          .add_shares = AddSharesKernel<V>};
}
