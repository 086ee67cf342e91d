// The emulation's own attention against the plain family: what stands for FlashInfer in tests of
// whole models serves what FlashInfer serves.
#include "tests/gpu/attention_harness.h"

namespace folio::kernels::cuda {
namespace {

using EmulatedAttentionTest = AttentionTest;

TEST_P(EmulatedAttentionTest, EqualsPlain) {
  for (const uint32_t head_dim : {64u, 128u}) {
    Batch batch(random_, {2, 3, head_dim, 16}, {{40, 1}, {17, 17}, {64, 5}, {1, 1}});
    ExpectPlain(batch, {});
  }
}

INSTANTIATE_TEST_SUITE_P(Stored, EmulatedAttentionTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
