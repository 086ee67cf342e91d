#include "services/model/device_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "kernels/cuda/stream.h"
#include "services/common/check.h"

namespace folio::model {
namespace {

using kernels::bf16;
using kernels::cuda::ConstTensor;
using kernels::cuda::CopyToDevice;
using kernels::cuda::DataType;
using kernels::cuda::Event;
using kernels::cuda::OwnedStream;
using kernels::cuda::PinnedBuffer;

// Places one after another, first counted, then given.
class Places {
 public:
  explicit Places(std::byte* base) : base_(base) {}

  ConstTensor Matrix(uint32_t rows, uint32_t cols) {
    const size_t stride = DeviceStride(cols);
    return {Take(rows * stride * sizeof(bf16)), DataType::kBf16, rows, cols, stride};
  }
  const float* Vector(uint32_t size) {
    return static_cast<const float*>(Take(size * sizeof(float)));
  }
  size_t bytes() const { return bytes_; }

 private:
  const void* Take(size_t bytes) {
    constexpr size_t kAlignment = 256;
    const size_t at = bytes_;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return base_ == nullptr ? nullptr : base_ + at;
  }

  std::byte* base_;
  size_t bytes_ = 0;
};

// Gives every tensor its place behind `base`; returns how many bytes they take.
size_t Place(std::byte* base, DeviceWeights& weights) {
  const ModelConfig& c = weights.config;
  const uint32_t q_rows = c.heads * c.head_dim;
  const uint32_t kv_rows = c.kv_heads * c.head_dim;
  Places places(base);
  weights.embedding = places.Matrix(c.vocab, c.hidden);
  weights.output = c.tied_embeddings ? weights.embedding : places.Matrix(c.outputs(), c.hidden);
  weights.final_norm = places.Vector(c.hidden);
  weights.layers.resize(c.num_layers);
  for (DeviceLayerWeights& layer : weights.layers) {
    layer.attention_norm = places.Vector(c.hidden);
    layer.qkv = places.Matrix(q_rows + 2 * kv_rows, c.hidden);
    layer.out = places.Matrix(c.hidden, q_rows);
    layer.ffn_norm = places.Vector(c.hidden);
    layer.gate_up = places.Matrix(2 * c.ffn, c.hidden);
    layer.down = places.Matrix(c.hidden, c.ffn);
  }
  return places.bytes();
}

// Sends what threads have read, one at a time. An error stays.
class Sender {
 public:
  static absl::StatusOr<std::unique_ptr<Sender>> Make() {
    auto stream = OwnedStream::Create();
    if (!stream.ok()) return stream.status();
    auto sender = std::unique_ptr<Sender>(new Sender(*std::move(stream)));
    for (int i = 0; i < 2; ++i) {
      auto memory = PinnedBuffer::Allocate(kHalfBytes, "weights on their way to the device");
      if (!memory.ok()) return memory.status();
      auto sent = Event::Create();
      if (!sent.ok()) return sent.status();
      absl::MutexLock lock(&sender->mutex_);
      sender->halves_.push_back({*std::move(memory), *std::move(sent)});
    }
    return sender;
  }

  // Rows of `cols` elements, packed, to rows `stride` apart; what is between becomes zeros.
  template <typename T>
  absl::Status Send(absl::Span<const T> values, size_t cols, size_t stride, void* to)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (absl::Status bound = kernels::cuda::BindDevice(device_); !bound.ok()) return bound;
    const size_t rows = values.size() / cols;
    const size_t at_once = kHalfBytes / (stride * sizeof(T));
    FOLIO_CHECK(at_once > 0);
    for (size_t first = 0; first < rows; first += at_once) {
      const size_t count = std::min(at_once, rows - first);
      Half& half = halves_[next_++ % halves_.size()];
      if (absl::Status status = half.sent.Wait(); !status.ok()) return status;
      T* row = half.memory.as<T>();
      for (size_t i = first; i < first + count; ++i, row += stride) {
        std::copy_n(&values[i * cols], cols, row);
        std::fill_n(row + cols, stride - cols, T{});
      }
      absl::Status status = CopyToDevice(stream_.get(), static_cast<T*>(to) + first * stride,
                                         half.memory.as<>(), count * stride * sizeof(T));
      status.Update(half.sent.Record(stream_.get()));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Until all has arrived.
  absl::Status Finish() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return kernels::cuda::WaitFor(stream_.get());
  }

 private:
  static constexpr size_t kHalfBytes = size_t{16} << 20;
  struct Half {
    PinnedBuffer memory;
    Event sent;
  };

  explicit Sender(OwnedStream stream) : stream_(std::move(stream)) {}

  const int device_ = kernels::cuda::CurrentDevice();
  absl::Mutex mutex_;
  OwnedStream stream_ ABSL_GUARDED_BY(mutex_);
  std::vector<Half> halves_ ABSL_GUARDED_BY(mutex_);
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Reads tensors and sends them; keeps the first error.
class Loader {
 public:
  Loader(const ModelSource& source, uint32_t layer, Sender& sender)
      : read_(source, layer), sender_(sender) {}

  // To rows of `to` from `first_row` on.
  void Matrix(Role role, absl::string_view name, const ConstTensor& to, uint32_t first_row,
              uint32_t rows) {
    if (!status().ok()) return;
    const std::vector<bf16> values = read_.Matrix(role, name, rows, to.cols);
    if (!read_.status().ok()) return;
    auto* place = static_cast<bf16*>(const_cast<void*>(to.data)) + first_row * to.stride;
    sent_ = sender_.Send(absl::MakeConstSpan(values), to.cols, to.stride, place);
  }
  void Matrix(Role role, absl::string_view name, const ConstTensor& to) {
    Matrix(role, name, to, 0, to.rows);
  }
  void Vector(Role role, absl::string_view name, const float* to, uint32_t size) {
    if (!status().ok()) return;
    const std::vector<float> values = read_.Vector(role, name, size);
    if (!read_.status().ok()) return;
    sent_ = sender_.Send(absl::MakeConstSpan(values), size, size, const_cast<float*>(to));
  }
  const absl::Status& status() const { return sent_.ok() ? read_.status() : sent_; }

 private:
  TensorReader read_;
  Sender& sender_;
  absl::Status sent_;
};

absl::Status LoadLayer(const ModelConfig& c, const DeviceLayerWeights& layer, Loader load) {
  const uint32_t q_rows = c.heads * c.head_dim;
  const uint32_t kv_rows = c.kv_heads * c.head_dim;
  load.Vector(Role::kAttentionNorm, "the attention norm", layer.attention_norm, c.hidden);
  load.Vector(Role::kFfnNorm, "the feed-forward norm", layer.ffn_norm, c.hidden);
  load.Matrix(Role::kQuery, "the query matrix", layer.qkv, 0, q_rows);
  load.Matrix(Role::kKey, "the key matrix", layer.qkv, q_rows, kv_rows);
  load.Matrix(Role::kValue, "the value matrix", layer.qkv, q_rows + kv_rows, kv_rows);
  load.Matrix(Role::kAttentionOut, "the attention output matrix", layer.out);
  load.Matrix(Role::kGate, "the gate matrix", layer.gate_up, 0, c.ffn);
  load.Matrix(Role::kUp, "the up matrix", layer.gate_up, c.ffn, c.ffn);
  load.Matrix(Role::kDown, "the down matrix", layer.down);
  return load.status();
}

// Embedding, output and final norm.
absl::Status LoadEnds(const DeviceWeights& weights, Loader load) {
  load.Vector(Role::kFinalNorm, "the final norm", weights.final_norm, weights.config.hidden);
  load.Matrix(Role::kEmbedding, "the embedding", weights.embedding);
  if (!weights.config.tied_embeddings) {
    load.Matrix(Role::kOutput, "the output matrix", weights.output);
  }
  return load.status();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const DeviceWeights>> LoadDeviceWeights(
    const ModelSource& source, kernels::cuda::DeviceMemory& memory,
    kernels::cpu::ThreadPool& threads, const LoadProgress& progress) {
  auto weights = std::make_unique<DeviceWeights>();
  weights->config = source.config();
  auto held = memory.Allocate(Place(nullptr, *weights), "the weights");
  if (!held.ok()) return held.status();
  weights->memory = *std::move(held);
  Place(weights->memory.as<>(), *weights);
  if (const auto* made = dynamic_cast<const DeviceSource*>(&source); made != nullptr) {
    if (absl::Status status = made->Fill(*weights); !status.ok()) return status;
    return weights;
  }
  auto sender = Sender::Make();
  if (!sender.ok()) return sender.status();
  const DeviceWeights& w = *weights;
  absl::Status status =
      ReadParts(w.config.num_layers, threads, progress, [&](std::optional<uint32_t> layer) {
        if (!layer.has_value()) return LoadEnds(w, Loader(source, 0, **sender));
        return LoadLayer(w.config, w.layers[*layer], Loader(source, *layer, **sender));
      });
  status.Update((*sender)->Finish());
  if (!status.ok()) return status;
  return weights;
}

}  // namespace folio::model
