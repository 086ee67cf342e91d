// Activation is the function that the gate of a feed-forward network passes before it is multiplied
// by up.
#ifndef FOLIO_KERNELS_ACTIVATION_H_
#define FOLIO_KERNELS_ACTIVATION_H_

#include <cstdint>

namespace folio::kernels {

enum class Activation : uint8_t {
  kSilu,  // x * sigmoid(x)
  // x * sigmoid(2 u) with u = sqrt(2 / pi) * (x + 0.044715 x^3), which is GELU's usual
  // approximation by tanh (Hendrycks and Gimpel, arXiv 1606.08415)
  kGelu,
};

}  // namespace folio::kernels

#endif  // FOLIO_KERNELS_ACTIVATION_H_
