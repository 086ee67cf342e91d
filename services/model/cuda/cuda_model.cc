#include "services/model/cuda/cuda_model.h"

#include <utility>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/ops/gemm.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/threads/thread_pool.h"

namespace folio::model {

namespace cuda = kernels::cuda;

absl::StatusOr<std::shared_ptr<CudaModel>> CudaModel::Load(const ModelSource& source,
                                                           const CudaModelOptions& options) {
  const ModelConfig& config = source.config();
  // Checked first, because loading takes long.
  absl::Status served = cuda::CheckShape({config.heads, config.kv_heads, config.head_dim});
  if (!served.ok()) return served;
  if (options.load_threads < 1) return absl::InvalidArgumentError("threads must be at least 1");
  const auto info = cuda::UseDevice(options.device);
  if (!info.ok()) return info.status();
  if (options.type == cuda::DataType::kE4M3) {
    served = cuda::CheckE4M3(*info, cuda::Gemm::CheckRowScales());
    if (!served.ok()) return served;
  }
  std::shared_ptr<CudaModel> model(new CudaModel(options));
  kernels::ThreadPool threads(options.load_threads);
  auto weights = LoadDeviceWeights(source, options.type, options.held, model->memory_, threads,
                                   options.progress);
  if (!weights.ok()) return weights.status();
  model->weights_ = *std::move(weights);
  return model;
}

CudaModel::~CudaModel() {
  // The calling thread may never have used this device, and CUDA would free on another one.
  cuda::BindDevice(device_).IgnoreError();
}

}  // namespace folio::model
