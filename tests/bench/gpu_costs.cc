#include "tests/bench/gpu_costs.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/cuda/ops/ops.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/uploads.h"
#include "tests/bench/random_fill.h"

namespace folio::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;
using kernels::ScoreKind;

void PutFailure(const SpeedRun& run, Json json, const absl::Status& status) {
  json["state"] = "failed";
  json["detail"] = std::string(status.message());
  run.put(json);
}

// Seconds of RopeAppendScore over `rows` rows of all layers, with scores of this kind.
absl::StatusOr<double> AppendSeconds(const GpuModel& model, uint32_t rows, ScoreKind kind) {
  const model::ModelConfig& c = model.config();
  const uint32_t page_tokens = model.pool().view.geometry.page_tokens;
  const uint32_t cols = (c.heads + 2 * c.kv_heads) * c.head_dim, q_cols = c.heads * c.head_dim;
  cuda::DeviceMemory memory(0);
  const auto stream = cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  const auto qkv = memory.Allocate(size_t{rows} * cols * sizeof(float), "queries, keys, values");
  const auto q = memory.Allocate(size_t{rows} * q_cols * 2, "queries");
  for (const absl::Status& status : {qkv.status(), q.status()}) {
    if (!status.ok()) return status;
  }
  std::vector<kernels::AppendSlot> slots;
  for (uint32_t i = 0; i < rows; ++i) {
    // A decode row has a page of its own, rows of a prompt share theirs: here 16 of them do.
    slots.push_back({i / page_tokens % model.pool().view.num_pages, i % page_tokens, i, kind});
  }
  cuda::Uploads uploads(memory);
  const auto places = uploads.Put(absl::MakeConstSpan(slots));
  absl::Status status = uploads.Flush(stream->get());
  status.Update(FillRandom(stream->get(), qkv->as<>(), size_t{rows} * cols, DataType::kFloat32,
                           {.low = -1, .high = 1, .seed = 7}));
  if (!status.ok()) return status;
  const auto seconds = SecondsEach(stream->get(), 50, [&] {
    return cuda::RopeAppendScore(
        stream->get(), {qkv->as<void>(), DataType::kFloat32, rows, cols, cols},
        {c.heads, c.kv_heads, c.head_dim}, model.angles(), places, model.pool(),
        {q->as<void>(), DataType::kBf16, rows, q_cols, q_cols});
  });
  if (!seconds.ok()) return seconds.status();
  return *seconds * c.num_layers;
}

// What the scores add to it.
absl::StatusOr<double> ScoringSeconds(const GpuModel& model, uint32_t rows) {
  const auto with = AppendSeconds(model, rows, ScoreKind::kNormRatio);
  if (!with.ok()) return with.status();
  const auto without = AppendSeconds(model, rows, ScoreKind::kNone);
  if (!without.ok()) return without.status();
  return std::max(0.0, *with - *without);
}

// Seconds from the call of Compact to the end of a step that does nothing else: a sequence of
// `tokens` of which every layer keeps `budget`.
absl::StatusOr<double> CompactSeconds(GpuModel& model, uint32_t tokens, uint32_t budget) {
  const CacheGeometry& geometry = model.pool().view.geometry;
  const uint32_t pages_of_each = geometry.pages_for(tokens) + 1;  // one ahead
  if (pages_of_each * geometry.num_layers > model.pool().view.num_pages) {
    return absl::ResourceExhaustedError("the pool is too small for the compaction");
  }
  model::Executor& executor = model.executor();
  std::vector<ClaimedLayer> layers(geometry.num_layers);
  std::vector<std::vector<TokenSlot>> keep(geometry.num_layers);
  uint32_t next = 0;
  for (uint32_t layer = 0; layer < geometry.num_layers; ++layer) {
    for (uint32_t i = 0; i < pages_of_each; ++i) {
      layers[layer].pages.push_back({PageId(next++), Generation(1)});
    }
    for (uint32_t i = 0; i < budget; ++i) {
      keep[layer].emplace_back(static_cast<uint32_t>(uint64_t{i} * tokens / budget));
    }
  }
  for (ClaimedLayer& layer : layers) layer.positions = {{Position(0), Position(tokens)}};
  const CompactAction compact{keep, std::vector<PageCount>(geometry.num_layers, PageCount(1))};
  std::vector<double> times;
  for (const bool compacts : {true, false, true, false, true, false}) {
    const model::SequenceSlot slot = executor.tables().Acquire(ScoreKind::kNormRatio);
    executor.tables().Restore(slot, layers);
    const absl::Time start = absl::Now();
    if (compacts) executor.Compact(slot, compact);
    const model::StepOutput output = executor.Collect(executor.Enqueue({}));
    times.push_back(absl::ToDoubleSeconds(absl::Now() - start));
    executor.tables().Release(slot);
    if (!output.status.ok()) return output.status;
  }
  const double with = std::min({times[0], times[2], times[4]});
  return std::max(0.0, with - std::min({times[1], times[3], times[5]}));
}

}  // namespace

void RunPrefill(const SpeedRun& run, uint32_t tokens, uint32_t budget) {
  Json json = run.Record("prefill");
  json["tokens"] = tokens;
  json["budget"] = budget;
  if (run.late()) return run.LeaveOut(json);
  Measured best;
  {
    const auto harness = run.model.Serve(Prompts::kComputed);
    for (int i = 0; i < 3; ++i) {  // the first warms up
      const auto measured =
          harness->Run({.context = tokens, .decode_steps = 4, .cache = CacheOf(budget)});
      if (!measured.ok()) return PutFailure(run, json, measured.status());
      if (i == 1 || (i > 1 && measured->prefill_seconds < best.prefill_seconds)) best = *measured;
    }
  }
  const ModelCosts& costs = run.model.costs();
  const double flops = 2 * costs.layer_weights * tokens + 2 * costs.output_weights +
                       costs.attention_flops * tokens * (tokens + 1.0) / 2;
  json["state"] = "measured";
  json["ms"] = best.prefill_seconds * 1e3;
  json["tokens_s"] = tokens / best.prefill_seconds;
  json["tflops"] = flops / best.prefill_seconds * 1e-12;
  json["share_of_peak"] = flops / best.prefill_seconds / run.limits.flops;
  if (budget != 0) {
    const uint32_t chunk = std::min(tokens, run.model.executor().max_rows());
    const auto scoring = ScoringSeconds(run.model, chunk);
    const auto compacting = CompactSeconds(run.model, tokens, budget);
    for (const absl::Status& status : {scoring.status(), compacting.status()}) {
      if (!status.ok()) return PutFailure(run, json, status);
    }
    const double parts = *scoring * tokens / chunk;
    json["scoring_share"] = parts / best.prefill_seconds;
    json["deciding_share"] = best.prefill_manager_seconds / best.prefill_seconds;
    json["compacting_share"] = *compacting / best.prefill_seconds;
    json["eviction_share"] =
        (parts + best.prefill_manager_seconds + *compacting) / best.prefill_seconds;
  }
  run.put(json);
}

void RunCosts(const SpeedRun& run, const DecodeCell& cell) {
  Json json = run.Record("costs");
  json["batch"] = cell.batch;
  json["context"] = cell.context;
  json["budget"] = cell.budget;
  if (run.late(run.decodes, 2 * cell.tokens())) return run.LeaveOut(json);
  absl::StatusOr<Measured> pipelined, synchronous;
  {
    const auto harness = run.model.Serve(Prompts::kSynthetic);
    pipelined = MeasureDecode(run, *harness, cell);
    synchronous = MeasureDecode(run, *harness, cell, /*synchronous=*/true);
  }
  const auto scoring = ScoringSeconds(run.model, cell.batch);
  for (const absl::Status& status : {pipelined.status(), synchronous.status(), scoring.status()}) {
    if (!status.ok()) return PutFailure(run, json, status);
  }
  const double step = pipelined->decode_seconds / pipelined->steps;
  const double waiting = synchronous->decode_seconds / synchronous->steps;
  json["state"] = "measured";
  json["step_ms"] = step * 1e3;
  json["scoring_share"] = *scoring / step;
  json["deciding_share"] = pipelined->manager_seconds / pipelined->decode_seconds;
  json["compacting_share"] = 0;  // decode drops whole pages
  json["eviction_share"] = *scoring / step + pipelined->manager_seconds / pipelined->decode_seconds;
  json["wait_share"] = pipelined->wait_seconds / pipelined->decode_seconds;
  json["synchronous_step_ms"] = waiting * 1e3;
  json["synchronous_wait_share"] = synchronous->wait_seconds / synchronous->decode_seconds;
  run.put(json);
}

}  // namespace folio::bench
