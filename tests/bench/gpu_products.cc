#include "tests/bench/gpu_products.h"

#include <string>
#include <utility>

#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/model/cuda/cuda_products.h"
#include "tests/bench/random_fill.h"

namespace folio::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;
using model::Activations;
using model::CudaProducts;

constexpr int kLaunches = 20;

// Rows of random numbers.
absl::StatusOr<Activations> RandomRows(cuda::DeviceMemory& memory, cuda::Stream stream,
                                       DataType type, uint32_t rows, uint32_t cols) {
  auto made = Activations::Make(memory, type, rows, cols);
  if (!made.ok()) return made.status();
  const cuda::Tensor all = made->Rows(rows);
  absl::Status status =
      FillRandom(stream, all.data, rows * all.stride, type, {.low = -1, .high = 1, .seed = 11});
  if (!status.ok()) return status;
  return made;
}

// Seconds of the products of all layers. The numbers that come out are of no use. Up to 16 rows our
// kernels are those of few rows, also where a worker would leave more than eight to the libraries.
absl::StatusOr<double> ProductsSeconds(const GpuModel& model, uint32_t rows, bool own_kernels) {
  const model::ModelConfig& c = model.config();
  cuda::DeviceMemory memory(0);
  const auto device = cuda::UseDevice(0);
  if (!device.ok()) return device.status();
  const auto stream = cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  const uint32_t heads = c.heads * c.head_dim;
  auto hidden = RandomRows(memory, stream->get(), DataType::kFloat32, rows, c.hidden);
  auto qkv = RandomRows(memory, stream->get(), DataType::kFloat32, rows,
                        heads + 2 * c.kv_heads * c.head_dim);
  auto attended = RandomRows(memory, stream->get(), DataType::kBf16, rows, heads);
  auto products = CudaProducts::Make(model.weights(), memory, stream->get(),
                                     {.max_rows = rows,
                                      .max_logit_rows = 1,
                                      .processors = device->processors,
                                      .own_kernels = own_kernels,
                                      .own_rows = cuda::kMaxSmallRows});
  for (const absl::Status& status :
       {hidden.status(), qkv.status(), attended.status(), products.status()}) {
    if (!status.ok()) return status;
  }
  const auto layers = [&] {
    return (*products)->EnqueueLayers(hidden->Rows(rows), qkv->Rows(rows), attended->Rows(rows));
  };
  absl::Status status = cuda::RunAll({[&] { return (*products)->Tune(*hidden, *qkv, *attended); },
                                      layers,  // loads the kernels, which a graph cannot
                                      [&] { return cuda::WaitFor(stream->get()); }});
  if (!status.ok()) return status;
  const auto graph = cuda::Graph::Capture(stream->get(), layers);
  if (!graph.ok()) return graph.status();
  return SecondsEach(stream->get(), kLaunches, [&] { return graph->Launch(stream->get()); });
}

}  // namespace

void RunProducts(const SpeedRun& run, uint32_t rows) {
  Json json = run.Record("products");
  json["rows"] = rows;
  if (run.late()) return run.LeaveOut(json);
  const auto own = ProductsSeconds(run.model, rows, /*own_kernels=*/true);
  const auto peer = ProductsSeconds(run.model, rows, /*own_kernels=*/false);
  for (const absl::Status& status : {own.status(), peer.status()}) {
    if (status.ok()) continue;
    json["state"] = "failed";
    json["detail"] = std::string(status.message());
    return run.put(json);
  }
  const double least = run.model.costs().layer_weights * sizeof(uint16_t) / run.limits.copy_bytes;
  json["state"] = "measured";
  json["us"] = *own * 1e6;
  json["cublaslt_us"] = *peer * 1e6;
  json["share_of_copy"] = least / *own;
  json["cublaslt_share_of_copy"] = least / *peer;
  run.put(json);
}

}  // namespace folio::bench
