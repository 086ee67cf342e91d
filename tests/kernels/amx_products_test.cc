// The products with tile registers against their definition. Rows, panels and outputs end where
// memory does, because sanitizers do not see what tile registers read and write.
#include "kernels/cpu/fast/amx_products.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tests/kernels/kernel_data.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kColumns = 32;

// Memory that ends at a page which nobody may touch.
template <typename T>
class Guarded {
 public:
  explicit Guarded(size_t count) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t used = (count * sizeof(T) + page - 1) / page * page;
    bytes_ = used + page;
    base_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED) std::abort();
    if (mprotect(static_cast<char*>(base_) + used, page, PROT_NONE) != 0) std::abort();
    data_ = reinterpret_cast<T*>(static_cast<char*>(base_) + used) - count;
  }
  ~Guarded() { munmap(base_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  void* base_;
  size_t bytes_;
  T* data_;
};

struct Shape {
  uint32_t rows, panels, k;
};

void ExpectProduct(const Shape& s, bool accumulate, Random& random) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.panels << " x " << s.k);
  const auto in = RandomBf16(random, size_t{s.rows} * s.k);
  const auto weight = RandomBf16(random, size_t{s.panels} * kColumns * s.k);
  const Guarded<bf16> rows(size_t{s.rows} * s.k);
  std::copy(in.begin(), in.end(), rows.data());
  const Guarded<bf16> panels(weight.size());  // [panel][k / 2][column][2]
  for (size_t i = 0; i < weight.size(); ++i) {
    const size_t panel = i / (kColumns * s.k);
    const size_t pair = i / (2 * kColumns) % (s.k / 2);
    const size_t column = panel * kColumns + i / 2 % kColumns;
    panels[i] = weight[column * s.k + 2 * pair + i % 2];
  }
  const bool one_tile = s.rows <= kRowPair / 2;
  const size_t stride = size_t{s.panels} * kColumns;
  const Guarded<bf16> packed(size_t{kRowPair} * s.k);
  const Guarded<float> out((one_tile ? kRowPair / 2 : kRowPair) * stride);
  for (size_t i = 0; i < s.rows * stride; ++i) out[i] = 1;
  PackRowPair(rows.data(), s.k, s.rows, s.k, packed.data());
  MultiplyTiles({.rows = packed.data(),
                 .next_rows = nullptr,
                 .one_tile = one_tile,
                 .k = s.k,
                 .panels = reinterpret_cast<const uint32_t*>(panels.data()),
                 .panel_stride = size_t{s.k} / 2 * kColumns,
                 .num_panels = s.panels,
                 .later_panels = nullptr,
                 .later_lines = 0,
                 .out = out.data(),
                 .out_stride = stride,
                 .accumulate = accumulate});
  for (uint32_t r = 0; r < s.rows; ++r) {
    for (size_t c = 0; c < stride; ++c) {
      double want = accumulate ? 1 : 0;
      double most = want;
      for (uint32_t i = 0; i < s.k; ++i) {
        const double product = double{in[r * s.k + i].ToFloat()} * weight[c * s.k + i].ToFloat();
        want += product;
        most += std::fabs(product);
      }
      ASSERT_NEAR(out[r * stride + c], want, 1e-6 + 4e-6 * most) << r << "," << c;
    }
  }
}

TEST(AmxProducts, AreTheSumsAndStayInTheirMemory) {
  if (!MakeFastOps("avx512_amx").ok()) GTEST_SKIP() << "this CPU has no matrix units";
  Random random(7);
  for (const uint32_t rows : {1u, 15u, 16u, 17u, 31u, 32u}) {
    for (const Shape& s :
         {Shape{rows, 1, 32}, {rows, 3, 96}, {rows, 2, 256}, {rows, 8, 288}, {rows, 1, 1024}}) {
      ExpectProduct(s, false, random);
      ExpectProduct(s, true, random);
    }
  }
}

}  // namespace
}  // namespace folio::kernels::cpu::fast
