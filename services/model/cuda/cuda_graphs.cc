#include "services/model/cuda/cuda_graphs.h"

#include <utility>

#include "kernels/cuda/runtime/stream.h"
#include "services/runtime/logging.h"

namespace folio::model {

namespace cuda = kernels::cuda;

std::vector<uint64_t> ShapeOf(const StepInputs& step, const CudaTransformer::Plans& plans,
                              const CudaSampling& sampling) {
  std::vector<uint64_t> shape{step.rows};
  const auto add = [&](const auto*... places) {
    (shape.push_back(reinterpret_cast<uintptr_t>(places)), ...);
  };
  add(step.runs.data, step.ids.data, sampling.inputs());
  for (size_t part = 0; part < step.parts.size(); ++part) {
    for (const AttentionPart::Layer& layer : step.parts[part].layers) {
      const cuda::LayerTables& tables = layer.tables;
      add(tables.pages, tables.page_starts, tables.last_tokens, tables.row_starts);
      // Without plans, lengths are a matter of what the kernels read.
      if (!plans[part].empty()) shape.push_back(layer.lengths);
    }
    for (const cuda::AttentionPlan& plan : plans[part]) {
      shape.insert(shape.end(), plan.flashinfer.begin(), plan.flashinfer.end());
    }
  }
  return shape;
}

absl::Status CudaGraphs::Run(const Shape& shape, absl::FunctionRef<absl::Status()> enqueue) {
  // A rank keeps the shapes in mind even if it may not record them, for the votes of the others.
  if (!enabled_ && communicator_ == nullptr) return Pass(enqueue);
  auto known = known_.find(shape);
  if (known == known_.end()) {
    if (known_.size() >= kMaxShapes) {
      if (absl::Status status = Forget(); !status.ok()) return status;
    }
    known_.emplace(shape, Known{});
    return Pass(enqueue);
  }
  Known& of = known->second;
  if (!of.graph.has_value() && !of.refused) {
    if (absl::Status status = Record(shape, of, enqueue); !status.ok()) return status;
  }
  if (!of.graph.has_value()) return Pass(enqueue);
  ++counts_.replayed;
  return of.graph->graph.Launch(stream_);
}

absl::Status CudaGraphs::Pass(absl::FunctionRef<absl::Status()> enqueue) {
  ++counts_.passed;
  return enqueue();
}

absl::Status CudaGraphs::Record(const Shape& shape, Known& known,
                                absl::FunctionRef<absl::Status()> enqueue) {
  known.refused = true;
  // A rank must not record alone: NCCL may wait for the others while it records.
  auto objections = Objections(shape, enabled_ ? "" : "graphs are switched off");
  if (objections.ok() && objections->empty()) {
    auto graph = Make(enqueue);
    objections = Objections(shape, graph.ok() ? "" : graph.status().ToString());
    if (objections.ok() && objections->empty()) {
      ++counts_.recorded;
      counts_.bytes += graph->memory.bytes();
      log::Debug("recorded a decode step", {{"rows", shape.front()},
                                            {"bytes", graph->memory.bytes()},
                                            {"all_bytes", counts_.bytes}});
      known.graph.emplace(*std::move(graph));
      known.refused = false;
      return absl::OkStatus();
    }
    // The graph is being uploaded; it must not be destroyed before that is done.
    if (absl::Status status = Drain(); !status.ok()) return status;
  }
  if (!objections.ok()) return objections.status();
  if (counts_.refused++ == 0) {
    log::Warning("a decode step cannot be a CUDA graph; it runs kernel by kernel",
                 {{"rows", shape.front()}, {"reason", *objections}});
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaGraphs::Graph> CudaGraphs::Make(absl::FunctionRef<absl::Status()> enqueue) {
  auto graph = cuda::Graph::Capture(stream_, enqueue);
  if (!graph.ok()) return graph.status();
  auto memory = memory_.Charge(graph->bytes(), "the graph of a decode step");
  if (memory.ok()) return Graph{*std::move(graph), *std::move(memory)};
  absl::Status status = Drain();  // as above
  return status.ok() ? memory.status() : status;
}

absl::StatusOr<std::string> CudaGraphs::Objections(const Shape& shape, const std::string& own) {
  if (communicator_ == nullptr) return own;
  // Rows are at most those of a step, far below 2^16.
  return communicator_->Agree(votes_++ << 16 | shape.front(), own);
}

absl::Status CudaGraphs::Drain() {
  if (communicator_ == nullptr) return cuda::WaitFor(stream_);
  auto done = cuda::Event::Create();
  if (!done.ok()) return done.status();
  absl::Status status = done->Record(stream_);
  return status.ok() ? communicator_->Await(*done) : status;
}

absl::Status CudaGraphs::Forget() {
  if (absl::Status status = Drain(); !status.ok()) return status;
  known_.clear();
  counts_.bytes = 0;
  return absl::OkStatus();
}

}  // namespace folio::model
