// Stands for CUDA's stream capture and graphs: what a stream is told while it is recorded is kept,
// arguments by value, and done again at each launch.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/emulator/runtime.h"
#include "tests/emulator/streams.h"

struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
  uint64_t under_way = 0;  // launches that are not done
};

namespace folio::emulate {
namespace {

// Ranks of a group may be threads.
std::atomic<uint64_t> launched{0};
std::atomic<size_t> graph_bytes{0};

// The device memory that a node takes.
constexpr size_t kNodeBytes = 1024;

}  // namespace

uint64_t GraphsLaunched() { return launched; }
size_t GraphBytes() { return graph_bytes; }

}  // namespace folio::emulate

namespace emulate = folio::emulate;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr || mode != cudaStreamCaptureModeThreadLocal) {
    return cudaErrorStreamCaptureUnsupported;
  }
  if (emulate::recording != nullptr) return cudaErrorInvalidValue;
  stream->recorded = std::make_unique<CUgraph_st>();
  emulate::recording = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (emulate::recording == nullptr || emulate::recording != stream) return cudaErrorInvalidValue;
  emulate::recording = nullptr;
  std::unique_ptr<CUgraph_st> recorded = std::move(stream->recorded);
  if (recorded->broken) return cudaErrorStreamCaptureInvalidated;
  *graph = recorded.release();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  if (emulate::faults.instantiate != cudaSuccess) return emulate::faults.instantiate;
  *made = new CUgraphExec_st{graph->work};
  emulate::graph_bytes += graph->work.size() * emulate::kNodeBytes;
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (emulate::faults.launch != cudaSuccess) return emulate::faults.launch;
  ++emulate::launched;
  ++graph->under_way;
  emulate::Enqueue(stream, [graph] {
    for (const auto& work : graph->work) work();
    --graph->under_way;
  });
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  if (graph->under_way > 0) {
    std::fprintf(stderr, "a graph is destroyed while the device runs it\n");
    std::abort();
  }
  emulate::graph_bytes -= graph->work.size() * emulate::kNodeBytes;
  delete graph;
  return cudaSuccess;
}
