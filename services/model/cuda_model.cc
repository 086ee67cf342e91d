#include "services/model/cuda_model.h"

#include <utility>

#include "kernels/cpu/thread_pool.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/stream.h"

namespace folio::model {

namespace cuda = kernels::cuda;

absl::StatusOr<std::shared_ptr<CudaModel>> CudaModel::Load(const ModelSource& source,
                                                           const CudaModelOptions& options) {
  const ModelConfig& config = source.config();
  // Before all that takes long.
  absl::Status served = cuda::CheckShape({config.heads, config.kv_heads, config.head_dim});
  if (!served.ok()) return served;
  if (options.load_threads < 1) return absl::InvalidArgumentError("threads must be at least 1");
  if (auto facts = cuda::UseDevice(options.device); !facts.ok()) return facts.status();
  std::shared_ptr<CudaModel> model(new CudaModel(options));
  kernels::cpu::ThreadPool threads(options.load_threads);
  auto weights = LoadDeviceWeights(source, model->memory_, threads, options.progress);
  if (!weights.ok()) return weights.status();
  model->weights_ = *std::move(weights);
  return model;
}

CudaModel::~CudaModel() {
  // Whose thread this is may never have used the device.
  cuda::BindDevice(device_).IgnoreError();
}

}  // namespace folio::model
