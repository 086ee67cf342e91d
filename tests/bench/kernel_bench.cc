// Each kernel's speed as a share of what the machine can do, at the shapes of the reference model.
//   kernel_bench [family] [threads]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/ops.h"
#include "tests/bench/kernel_bench_scores.h"
#include "tests/bench/machine_limits.h"

namespace folio::bench {
namespace {

using namespace kernels;       // NOLINT: the subject of this program
using namespace kernels::cpu;  // NOLINT: likewise

constexpr uint32_t kLayers = 30, kHidden = 576, kFfn = 1536, kVocab = 49152;
constexpr uint32_t kHeads = 9, kKvHeads = 3, kDim = 64, kQkv = (kHeads + 2 * kKvHeads) * kDim;

std::vector<bf16> RandomBf16(size_t count, float scale) {
  static std::minstd_rand random(1);
  std::vector<bf16> values(count);
  for (bf16& v : values) {
    v = bf16::Round((static_cast<float>(random()) / 2147483648.0f - 0.5f) * scale);
  }
  return values;
}

struct Layer {
  std::unique_ptr<PackedWeights> qkv, out, gate_up, down;
};

class KernelBench {
 public:
  KernelBench(std::unique_ptr<CpuOps> ops, int threads)
      : ops_(std::move(ops)),
        pool_(threads),
        bandwidth_(ReadBandwidth(pool_)),
        peak_(PeakFlops(pool_)) {
    std::printf("%s, %d threads: read %.1f GB/s, peak %.0f GFLOP/s\n",
                std::string(ops_->name()).c_str(), threads, bandwidth_ / 1e9, peak_ / 1e9);
    const auto qkv = RandomBf16(kQkv * kHidden, 0.1f);
    const auto up = RandomBf16(kFfn * kHidden, 0.1f);
    const auto down = RandomBf16(kFfn * kHidden, 0.1f);
    for (uint32_t l = 0; l < kLayers; ++l) {
      layers_.push_back({Pack(qkv, kQkv, kHidden), Pack(qkv, kHidden, kHidden),
                         ops_->PackGated({up.data(), kFfn, kHidden, kHidden},
                                         {down.data(), kFfn, kHidden, kHidden}, Activation::kSilu),
                         Pack(down, kHidden, kFfn)});
    }
    const auto head = RandomBf16(size_t{kVocab} * kHidden, 0.1f);
    head_ = Pack(head, kVocab, kHidden);
    Reserve(2048);
  }

  // Prompt rows have kernels of their own where the CPU has bf16 arithmetic.
  void Linear(RowSplit split) {
    const uint32_t rows = split.total();
    double bytes = 0;
    for (const Layer& l : layers_) {
      bytes += l.qkv->bytes() + l.out->bytes() + l.gate_up->bytes() + l.down->bytes();
    }
    const double flops = bytes * rows;  // two per weight of two bytes
    const double seconds = FastestSeconds(rows > 32 ? 4 : 12, [&] { LayerProducts(split); });
    Print(Name("layer products", split), rows, seconds, bytes, flops);
  }

  // One product at a time, over all layers.
  void LinearParts(RowSplit split) {
    const uint32_t rows = split.total();
    const auto each = [&](const char* name, const PackedWeights& first, auto body) {
      const double bytes = static_cast<double>(first.bytes()) * kLayers;
      Print(Name(name, split), rows,
            FastestSeconds(6,
                           [&] {
                             for (const Layer& l : layers_) body(l);
                           }),
            bytes, bytes * rows);
    };
    each("  qkv 960x576", *layers_[0].qkv, [&](const Layer& l) {
      ops_->Linear(pool_, split, A(rows), *l.qkv, F(rows, kQkv), false);
    });
    each("  out 576x576", *layers_[0].out, [&](const Layer& l) {
      ops_->Linear(pool_, split, A(rows), *l.out, F(rows, kHidden), true);
    });
    each("  gate-up 2x1536x576", *layers_[0].gate_up,
         [&](const Layer& l) { ops_->GatedLinear(pool_, split, A(rows), *l.gate_up, B(rows)); });
    each("  down 576x1536", *layers_[0].down, [&](const Layer& l) {
      ops_->Linear(pool_, split, B(rows), *l.down, F(rows, kHidden), true);
    });
  }

  void LmHead(uint32_t rows) {
    logits_.resize(size_t{rows} * kVocab);
    const auto bytes = static_cast<double>(head_->bytes());
    const double seconds = FastestSeconds(10, [&] {
      ops_->Linear(pool_, {rows, 0}, A(rows), *head_, {logits_.data(), rows, kVocab, kVocab},
                   false);
    });
    Print("lm head", rows, seconds, bytes, bytes * rows);
  }

  // `batch` sequences of `context` tokens, in as many layers as make the caches forget.
  void DecodeAttention(uint32_t batch, uint32_t context) {
    const size_t layer_bytes = size_t{batch} * context * kKvHeads * kDim * 4;
    const uint32_t layers = 1 + static_cast<uint32_t>((size_t{160} << 20) / layer_bytes);
    const uint32_t per_sequence = (context + 15) / 16;
    MakePages(layers * batch * per_sequence);
    const double seconds = FastestSeconds(8, [&] {
      for (uint32_t l = 0; l < layers; ++l) {
        std::vector<kernels::AttentionItem> runs;
        for (uint32_t b = 0; b < batch; ++b) {
          runs.push_back({b, 1, &table_[(size_t{l} * batch + b) * per_sequence], context});
        }
        ops_->Attention(pool_, {batch, 0}, A(batch), runs, kShape, pages_, C(batch));
      }
    });
    const auto bytes = static_cast<double>(layer_bytes);
    Print("decode attention", batch, seconds / layers, bytes, bytes * kHeads / kKvHeads, context);
  }

  // A prompt in chunks of `chunk`, one layer; flops of what the mask leaves.
  double PromptAttention(uint32_t prompt, uint32_t chunk) {
    MakePages((prompt + 15) / 16);
    Reserve(chunk);
    const double seconds = FastestSeconds(6, [&] {
      for (uint32_t done = 0; done < prompt; done += chunk) {
        const kernels::AttentionItem run{0, chunk, table_.data(), done + chunk};
        ops_->Attention(pool_, {0, chunk}, A(chunk), {&run, 1}, kShape, pages_, C(chunk));
      }
    });
    const double pairs = 0.5 * prompt * (prompt + 1.0);
    Print("prompt attention", chunk, seconds, 0, pairs * kHeads * kDim * 4, prompt);
    return seconds;
  }

  // Everything a prompt needs but attention, in chunks; seconds for all layers.
  double PromptRest(uint32_t chunk) {
    std::vector<float> norm(kHidden, 1.0f);
    std::vector<float> angles(size_t{chunk} * kDim / 2, 0.5f);
    MakePages((chunk + 15) / 16);
    std::vector<kernels::AppendSlot> slots(chunk);
    for (uint32_t i = 0; i < chunk; ++i) {
      slots[i] = {table_[i / 16], i % 16, i, kernels::ScoreKind::kNormRatio};
    }
    const auto floats = F(chunk, kHidden);
    const double small =
        kLayers * FastestSeconds(20, [&] {
          for (int i = 0; i < 2; ++i) {
            ops_->RmsNorm(pool_, {floats.data, chunk, kHidden, kHidden}, norm, 1e-5f, A(chunk));
          }
          const auto qkv = F(chunk, kQkv);
          ops_->RopeAppendScore(pool_, {qkv.data, chunk, kQkv, kQkv}, kShape,
                                {angles.data(), angles.data(), chunk}, slots, pages_, A(chunk));
        });
    std::printf("  norms, rope, append, score: %.2f ms for %u rows, all layers\n", small * 1e3,
                chunk);
    return small + FastestSeconds(4, [&] { LayerProducts({0, chunk}); });
  }

  void Scores() { BenchScores(*ops_, pool_, bandwidth_); }
  double Window(uint32_t prompt) { return BenchWindow(*ops_, pool_, 64, prompt); }

 private:
  static constexpr AttentionShape kShape{kHeads, kKvHeads, kDim};

  std::unique_ptr<PackedWeights> Pack(const std::vector<bf16>& values, uint32_t n, uint32_t k) {
    return ops_->Pack({values.data(), n, k, k});
  }
  void Reserve(uint32_t rows) {
    if (rows <= reserved_) return;
    reserved_ = rows;
    a_.assign(size_t{rows} * kFfn * 2, 0);
    b_ = c_ = a_;
    f_.assign(size_t{rows} * kFfn, 0.01f);
    // bf16 0.01 everywhere; the plain family reads other, equally harmless numbers.
    for (auto* buffer : {&a_, &b_}) std::fill(buffer->begin(), buffer->end(), uint16_t{0x3c24});
  }
  Activations A(uint32_t rows) { return {a_.data(), rows, kHidden}; }
  Activations B(uint32_t rows) { return {b_.data(), rows, kFfn}; }
  Activations C(uint32_t rows) { return {c_.data(), rows, kHidden}; }
  Matrix<float> F(uint32_t rows, uint32_t cols) { return {f_.data(), rows, cols, cols}; }

  static std::string Name(const char* what, RowSplit split) {
    return std::string(what) + (split.prompt_rows > 0 ? ", prompt" : "");
  }
  void LayerProducts(RowSplit split) {
    const uint32_t rows = split.total();
    for (const Layer& l : layers_) {
      ops_->Linear(pool_, split, A(rows), *l.qkv, F(rows, kQkv), false);
      ops_->Linear(pool_, split, A(rows), *l.out, F(rows, kHidden), false);
      ops_->GatedLinear(pool_, split, A(rows), *l.gate_up, B(rows));
      ops_->Linear(pool_, split, B(rows), *l.down, F(rows, kHidden), false);
    }
  }

  void MakePages(uint32_t count) {
    const CacheGeometry geometry{kLayers, kKvHeads, kDim, 16};
    const size_t elements = count * geometry.page_bytes() / 2;
    if (page_elements_ < elements) {
      const auto values = RandomBf16(elements, 2.0f);
      page_elements_ = elements;
      // As a pool lies in memory: a row of a page never straddles a cache line.
      page_memory_.reset(
          static_cast<bf16*>(std::aligned_alloc(4096, (elements * 2 + 4095) & ~4095ul)));
      std::copy(values.begin(), values.end(), page_memory_.get());
    }
    scores_.resize(count * geometry.scores_per_page());
    pages_ = {reinterpret_cast<std::byte*>(page_memory_.get()), scores_.data(), count, geometry};
    table_.resize(count);
    std::iota(table_.begin(), table_.end(), 0u);
    std::shuffle(table_.begin(), table_.end(), std::minstd_rand(3));
  }

  void Print(const std::string& what, uint32_t rows, double seconds, double bytes, double flops,
             uint32_t context = 0) const {
    std::printf("%-28s rows %4u", what.c_str(), rows);
    context ? std::printf(" context %5u", context) : std::printf("%14s", "");
    std::printf(" %9.1f us", seconds * 1e6);
    if (bytes > 0) {
      std::printf("  %5.1f GB/s (%3.0f%%)", bytes / seconds / 1e9,
                  100 * bytes / seconds / bandwidth_);
    }
    std::printf("  %5.0f GFLOP/s (%3.0f%%)\n", flops / seconds / 1e9,
                peak_ > 0 ? 100 * flops / seconds / peak_ : 0.0);
  }

  std::unique_ptr<CpuOps> ops_;
  ThreadPool pool_;
  double bandwidth_, peak_;
  std::vector<Layer> layers_;
  std::unique_ptr<PackedWeights> head_;
  uint32_t reserved_ = 0;
  std::vector<uint16_t> a_, b_, c_;
  std::vector<float> f_, logits_, scores_;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<bf16, Free> page_memory_;
  size_t page_elements_ = 0;
  std::vector<uint32_t> table_;
  kernels::PoolView pages_;
};

int Main(int argc, char** argv) {
  const std::string family = argc > 1 ? argv[1] : "auto";
  if (family.starts_with('-')) {
    std::fprintf(
        stderr,
        "usage: kernel_bench [auto|avx512_amx|avx512_bf16|avx512|avx2|portable|plain] [threads]\n");
    return 2;
  }
  const int threads = argc > 2 ? std::atoi(argv[2]) : AvailableCores();
  absl::StatusOr<std::unique_ptr<CpuOps>> ops = MakePlainOps();
  if (family != "plain") ops = MakeFastOps(family);
  if (!ops.ok()) {
    std::fprintf(stderr, "%s\n", ops.status().ToString().c_str());
    return 1;
  }
  KernelBench bench(*std::move(ops), threads);
  for (uint32_t rows : {1, 2, 4, 8, 16, 32}) bench.Linear({rows, 0});
  bench.LinearParts({1, 0});
  bench.LinearParts({8, 0});
  for (uint32_t rows : {1, 8, 16}) bench.LmHead(rows);
  for (uint32_t rows : {64, 512, 2048}) {
    bench.Linear({rows, 0});
    bench.Linear({0, rows});
  }
  bench.LinearParts({512, 0});
  bench.LinearParts({0, 512});
  for (uint32_t context : {1024, 2048, 4096}) {
    for (uint32_t batch : {1, 4, 8, 16}) bench.DecodeAttention(batch, context);
  }
  bench.Scores();
  const double window = bench.Window(4096);
  for (uint32_t chunk : {512, 2048}) {
    const double rest = bench.PromptRest(chunk);
    for (uint32_t prompt : {2048, 4096}) {
      const double attention = kLayers * bench.PromptAttention(prompt, chunk);
      std::printf("prompt of %u in chunks of %u: %.0f tokens/s by kernels alone\n", prompt, chunk,
                  prompt / (attention + rest * prompt / chunk));
      if (prompt == 4096) {
        std::printf("  its window scores: %.2f %%\n",
                    100 * window / (attention + rest * prompt / chunk));
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace folio::bench

int main(int argc, char** argv) { return folio::bench::Main(argc, argv); }
