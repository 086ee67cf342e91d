#include "services/model/cuda/cuda_executor_state.h"

#include <algorithm>
#include <utility>

#include "services/model/cuda/decode_shapes.h"
#include "services/model/executor/rope.h"

namespace folio::model {

namespace cuda = kernels::cuda;

CudaExecutorState::~CudaExecutorState() { Wait(); }

void CudaExecutorState::Wait() const {
  // A failure also shows in the steps that it affects, so it can be ignored here.
  cuda::BindDevice(device).IgnoreError();
  cuda::WaitFor(stream.get()).IgnoreError();
}

absl::StatusOr<std::unique_ptr<CudaExecutorState>> CudaExecutorState::Make(
    std::shared_ptr<CudaModel> model, const cuda::DevicePool& pool,
    const CudaExecutorOptions& options) {
  const auto info = cuda::UseDevice(model->device());
  if (!info.ok()) return info.status();
  auto stream = cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  auto state =
      std::make_unique<CudaExecutorState>(std::move(model), pool, options, *std::move(stream));
  if (absl::Status status = state->Load(options, info->processors); !status.ok()) return status;
  return state;
}

absl::Status CudaExecutorState::LoadAngles(const ModelConfig& config, bool others,
                                           cuda::DeviceBuffer& buffer, kernels::RopeTable& table) {
  RopeAngles on_host_angles(config, others);
  const kernels::RopeTable on_host = on_host_angles.Table(config.context);
  const size_t count = size_t{on_host.positions} * config.head_dim / 2;
  auto device = memory.Allocate(2 * count * sizeof(float), "angles of rotary embedding");
  if (!device.ok()) return device.status();
  const auto pinned = cuda::PinnedBuffer::Allocate(2 * count * sizeof(float), "the same");
  if (!pinned.ok()) return pinned.status();
  std::copy_n(on_host.cos, count, pinned->as<float>());
  std::copy_n(on_host.sin, count, pinned->as<float>() + count);
  buffer = *std::move(device);
  table = {buffer.as<float>(), buffer.as<float>() + count, on_host.positions};
  absl::Status status =
      cuda::CopyToDevice(stream.get(), buffer.as<>(), pinned->as<>(), pinned->bytes());
  status.Update(cuda::WaitFor(stream.get()));
  return status;
}

absl::Status CudaExecutorState::Load(const CudaExecutorOptions& options, uint32_t processors) {
  const CacheGeometry& geometry = pool.view.geometry;
  const ModelConfig& config = weights->config;
  // The manager grants pages ahead of their tokens, so a table may have a few more pages than the
  // context fills.
  constexpr uint32_t kPagesAhead = 8;
  device_tables.emplace(memory, config.num_layers,
                        geometry.pages_for(config.context) + kPagesAhead);
  absl::Status loaded = LoadAngles(config, false, angles, rope.usual);
  if (loaded.ok() && config.others.has_value()) {
    loaded = LoadAngles(config, true, other_angles, rope.others);
  }
  if (!loaded.ok()) return loaded;
  auto new_transformer =
      CudaTransformer::Make(*weights, memory, pool, rope, processors, stream.get(), options);
  if (!new_transformer.ok()) return new_transformer.status();
  transformer = *std::move(new_transformer);
  const auto read_tokens = cuda::PlansReadTokens({config.heads, config.kv_heads, config.head_dim});
  if (!read_tokens.ok()) return read_tokens.status();
  auto new_layout =
      StepInputBuilder::Make(memory, geometry, max_rows, pool.view.num_pages, *read_tokens);
  if (!new_layout.ok()) return new_layout.status();
  layout = *std::move(new_layout);
  auto new_sampling = CudaSampling::Make(memory, max_rows);
  if (!new_sampling.ok()) return new_sampling.status();
  sampling = *std::move(new_sampling);
  auto new_ids = memory.Allocate(max_rows * sizeof(uint32_t), "tokens of a step");
  if (!new_ids.ok()) return new_ids.status();
  ids = *std::move(new_ids);
  const uint32_t padded = std::min(max_rows, kMaxPaddedRows);
  auto new_inputs = memory.Allocate(
      StepInputBuilder::InputBytes(config.num_layers, padded) + CudaSampling::InputBytes(padded),
      "inputs of decode steps");
  if (!new_inputs.ok()) return new_inputs.status();
  inputs = *std::move(new_inputs);
  auto new_counter = cuda::PinnedBuffer::Allocate(sizeof(uint64_t), "the count of steps");
  if (!new_counter.ok()) return new_counter.status();
  counter = *std::move(new_counter);
  *counter.as<uint64_t>() = 0;
  return options.tune ? transformer->Tune() : absl::OkStatus();
}

}  // namespace folio::model
