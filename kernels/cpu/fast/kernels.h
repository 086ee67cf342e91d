// KernelTable is the set of single-threaded kernels that one instruction set brings to the fast
// family. Each instruction set has one table, filled from the same templates (gemm.inl.h,
// rows.inl.h, attention.inl.h, decode.inl.h, scores.inl.h, unrotated.inl.h), and that of AMX has
// the kernels of AVX-512 BF16 with another attention (amx_attention.inl.h). Kernels work on raw
// memory, and their callers do the scheduling and own threads and scratch memory.
//
// The files that fill tables are compiled for their instruction set. They must not instantiate
// shared inline code (std, absl), because the linker keeps one copy for the whole program and might
// keep theirs, which other CPUs cannot run.
#ifndef FOLIO_KERNELS_CPU_FAST_KERNELS_H_
#define FOLIO_KERNELS_CPU_FAST_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cpu/fast/attention_kernels.h"
#include "kernels/cpu/fast/score_kernels.h"
#include "kernels/views.h"

namespace folio::kernels::cpu::fast {

inline constexpr uint32_t kMaxLanes = 16;
inline constexpr size_t kAlign = 64;

// Weights and key/value tiles come in panels: [k / 2][columns][2] bf16, so that a vector of 32-bit
// lanes holds, for each of its columns, two neighbours along k. A panel has 2 * lanes columns; an
// odd k and missing columns are filled with zeros. Sums run over k in ascending order in one
// accumulator per output, whatever else is computed beside it: that is batch invariance. AMX sums
// up steps of 32 along k, and these begin at the same k for all rows.
struct LinearTile {
  const bf16* in;  // [rows, k], in_stride
  size_t in_stride;
  uint32_t rows;
  uint32_t k;
  const uint32_t* panels;
  uint32_t num_panels;
  uint32_t columns;  // outputs from the first panel's first column to the end of the row
  bool stream;       // weights come from memory: fetch the next panel while this one is used
};

struct LinearOut {
  float* out;  // [rows, columns], stride
  size_t stride;
  bool accumulate;
};

// A gated panel is [k / 2][lanes of gate | lanes of up][2]; `columns` counts outputs.
struct GatedOut {
  bf16* out;
  size_t stride;
};

struct RopeRow {
  const float* qkv;  // [q heads | k heads | v heads][head_dim]
  const float* cos;  // [head_dim / 2] of the row's position
  const float* sin;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_dim;
  bf16* q;     // [heads][head_dim]
  bf16* keys;  // of the token in its page: head h is at keys + h * head_stride
  bf16* values;
  size_t head_stride;
  ScoreKind kind;
  float* score;  // [kv_heads] of a kind that is written at append, or null
};

// Kernels for each Activation have its number.
inline constexpr size_t kActivations = 2;
constexpr size_t IndexOf(Activation activation) { return static_cast<size_t>(activation); }

struct KernelTable {
  const char* name;
  uint32_t lanes;
  uint32_t group_rows;  // rows one pass over a panel serves

  void (*linear)(const LinearTile& tile, const LinearOut& out);
  void (*gated[kActivations])(const LinearTile& tile, const GatedOut& out);
  // to = from, or to += from.
  void (*put)(const float* from, size_t n, float* to, bool accumulate);
  // activation(gate) * up of `n` outputs. `in` alternates between lanes of gate and lanes of up.
  void (*gate[kActivations])(const float* in, size_t n, bf16* out);
  void (*embed)(const bf16* in, float* out, size_t n);
  void (*rms_norm)(const float* x, const float* weight, float eps, size_t n, bf16* out);
  void (*rope_append)(const RopeRow& row);
  void (*pack_keys)(const PackTile& tile);
  void (*pack_values)(const PackTile& tile);
  void (*flash)(const FlashTile& tile);
  void (*decode)(const DecodePart& part);
  void (*merge)(const FlashMerge& merge);
  void (*add_directions)(const DirectionSum& tile);
  void (*project)(const Projection& tile);
  void (*add_unrotated)(const UnrotatedKeys& token, float* sums);
  void (*project_unrotated)(const UnrotatedKeys& token, const float* directions, float* score);
  void (*keep_shares)(const WindowTile& tile);
  void (*add_shares)(const ShareTile& tile);
};

const KernelTable& PortableKernels();
#if defined(__x86_64__)
const KernelTable& Avx2Kernels();
const KernelTable& Avx512Kernels();
const KernelTable& Avx512Bf16Kernels();
const KernelTable& Avx512AmxKernels();
#endif

}  // namespace folio::kernels::cpu::fast

#endif  // FOLIO_KERNELS_CPU_FAST_KERNELS_H_
