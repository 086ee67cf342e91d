// Products with quantised weights beside those with bf16 ones, at the shapes of Llama-3.2-1B. Both
// are measured by turns, so that what disturbs the machine disturbs both.
//   quantized_bench [family] [threads] [type]
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/ops.h"
#include "tests/bench/machine_limits.h"

namespace folio::bench {
namespace {

using namespace kernels;       // NOLINT: the subject of this program
using namespace kernels::cpu;  // NOLINT: likewise

// The gate and up matrices, as one product, of so many layers that caches forget them.
constexpr uint32_t kN = 16384, kK = 2048, kLayers = 16;

const char* const kNames[] = {"Q4_0",   "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                              "IQ4_NL", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"};

// The same row many times, with random codes.
class OneRow final : public QuantizedMatrix {
 public:
  explicit OneRow(const QuantizedFormat& format) : format_(format), row_(format, kK) {
    std::minstd_rand random(1);
    for (uint8_t& code : row_.codes) code = static_cast<uint8_t>(random() % (1u << format.bits));
    for (auto* scales : {&row_.scales, &row_.offset_scales}) {
      for (uint16_t& scale : *scales) scale = 0x1c00;  // 2^-8
    }
    for (int8_t& step : row_.steps) step = 3;
  }
  const QuantizedFormat& format() const override { return format_; }
  uint32_t n() const override { return kN; }
  uint32_t k() const override { return kK; }
  void Read(uint32_t /*row*/, QuantizedRow& out) const override { out = row_; }

 private:
  QuantizedFormat format_;
  QuantizedRow row_;
};

using Layers = std::vector<std::unique_ptr<PackedWeights>>;

class Bench {
 public:
  Bench(const CpuOps& ops, int threads) : ops_(ops), pool_(threads) {
    const std::vector<bf16> row(size_t{kN} * kK, bf16::Round(0.01f));
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      bf16_.push_back(ops.Pack({row.data(), kN, kK, kK}));
    }
    const double bandwidth = ReadBandwidth(pool_);
    std::printf("%s, %d threads, read bandwidth %.1f GB/s\n", std::string(ops.name()).c_str(),
                threads, bandwidth * 1e-9);
    std::printf("type      rows   ms    GB/s   of bf16's speed\n");
  }

  void Compare(const char* name, const QuantizedFormat& format) {
    const OneRow matrix(format);
    Layers quantized;
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      quantized.push_back(ops_.PackQuantized({&matrix}));
    }
    for (const RowSplit& rows :
         {RowSplit{1, 0}, RowSplit{4, 0}, RowSplit{8, 0}, RowSplit{16, 0}, RowSplit{0, 512}}) {
      double fast = std::numeric_limits<double>::infinity();
      double slow = fast;
      for (int turn = 0; turn < (rows.prompt_rows > 0 ? 3 : 8); ++turn) {
        fast = std::min(fast, Seconds(quantized, rows));
        slow = std::min(slow, Seconds(bf16_, rows));
      }
      const double bytes = static_cast<double>(quantized[0]->bytes()) * kLayers;
      std::printf("%-8s %4u%s %7.2f %6.1f   %.2f\n", name, rows.total(),
                  rows.prompt_rows > 0 ? "p" : " ", fast * 1e3, bytes / fast * 1e-9, slow / fast);
      std::fflush(stdout);
    }
  }

 private:
  double Seconds(const Layers& layers, const RowSplit& rows) {
    in_.resize(size_t{rows.total()} * kK, bf16::Round(0.5f));
    out_.resize(size_t{rows.total()} * kN);
    return FastestSeconds(1, [&] {
      for (const auto& layer : layers) {
        ops_.Linear(pool_, rows, {in_.data(), rows.total(), kK}, *layer,
                    {out_.data(), rows.total(), kN, kN}, false);
      }
    });
  }

  const CpuOps& ops_;
  ThreadPool pool_;
  Layers bf16_;
  std::vector<bf16> in_;
  std::vector<float> out_;
};

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) {
  const auto ops = folio::kernels::cpu::MakeFastOps(argc > 1 ? argv[1] : "auto");
  if (!ops.ok()) {
    std::fprintf(stderr, "%s\n", ops.status().ToString().c_str());
    return 1;
  }
  folio::bench::Bench bench(**ops, argc > 2 ? std::atoi(argv[2]) : 2);
  const std::string only = argc > 3 ? argv[3] : "";
  for (size_t i = 0; i < std::size(folio::bench::kNames); ++i) {
    if (!only.empty() && only != folio::bench::kNames[i]) continue;
    bench.Compare(folio::bench::kNames[i], folio::kernels::kQuantizedFormats[i]);
  }
  return 0;
}
