#include "kernels/cpu/fast/prompt_gemm.h"

#include <algorithm>
#include <cstring>

namespace folio::kernels::cpu::fast {
namespace {

class HeldPanels final : public PanelSource {
 public:
  explicit HeldPanels(const PanelWeights& weight) : weight_(weight) {}
  uint32_t panels() const override { return weight_.num_panels(); }
  uint32_t k() const override { return weight_.k(); }
  PanelBlock Read(uint32_t first, uint32_t /*count*/, uint32_t begin, uint32_t /*end*/,
                  uint32_t* /*space*/) const override {
    return {Held(first, begin), weight_.panel_bytes() / sizeof(uint32_t)};
  }
  const uint32_t* Held(uint32_t first, uint32_t begin) const override {
    return weight_.panel(first) + size_t{begin} / 2 * kPanelColumns;
  }

 private:
  const PanelWeights& weight_;
};

}  // namespace

void PromptGemm::Linear(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
                        Matrix<float> out, bool accumulate) {
  Multiply(pool, in, HeldPanels(weight), [&](const PanelProduct& part) {
    const uint32_t column = part.panel * kPanelColumns;
    const uint32_t columns = std::min(part.panels * kPanelColumns, weight.n() - column);
    for (uint32_t r = 0; r < part.rows; ++r) {
      kernels_.put(part.values + r * part.stride, columns, out.row(part.row + r) + column,
                   accumulate);
    }
  });
}

void PromptGemm::Gated(ThreadPool& pool, Matrix<const bf16> in, const PanelWeights& weight,
                       Matrix<bf16> out) {
  const auto gate = kernels_.gate[IndexOf(weight.activation())];
  Multiply(pool, in, HeldPanels(weight), [&](const PanelProduct& part) {
    const uint32_t first = part.panel * weight.panel_columns();
    const uint32_t outputs = std::min(part.panels * weight.panel_columns(), weight.n() - first);
    for (uint32_t r = 0; r < part.rows; ++r) {
      gate(part.values + r * part.stride, outputs, out.row(part.row + r) + first);
    }
  });
}

std::unique_ptr<PromptGemm> PromptGemm::Make(const KernelTable& kernels) {
#if defined(__x86_64__)
  if (std::strcmp(kernels.name, "avx512_amx") == 0) return MakeAmxGemm(kernels);
#endif
  // Without bf16 arithmetic oneDNN converts weights in every call.
  if (std::strcmp(kernels.name, "avx512_bf16") == 0) return MakeOneDnnGemm(kernels);
  return nullptr;
}

}  // namespace folio::kernels::cpu::fast
