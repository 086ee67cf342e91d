#include "tests/bench/gpu_decode.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/bench/plain_decode.h"

namespace folio::bench {
namespace {

// Of a sequence, beyond the measured tokens: prompts are opened in one go, but not at once. With a
// budget more of them cost no pages.
constexpr uint32_t kSpareFull = 256, kSpareEvicting = 4096;

Json CellRecord(const SpeedRun& run, const std::string& record, const DecodeCell& cell) {
  Json json = run.Record(record);
  json["batch"] = cell.batch;
  json["context"] = cell.context;
  json["budget"] = cell.budget;
  return json;
}

// Sequences of the cell that may have their prompts' pages at the same time, or the refusal.
absl::StatusOr<uint32_t> Together(const SpeedRun& run, const DecodeCell& cell,
                                  uint32_t new_tokens) {
  const CacheGeometry& geometry = run.model.pool().view.geometry;
  const uint64_t layers = geometry.num_layers;
  const uint64_t pages = run.model.pool().view.num_pages;
  const uint64_t prompt = layers * (geometry.pages_for(cell.context) + 1);
  uint64_t stays = layers * (geometry.pages_for(cell.context + new_tokens) + 1);
  if (cell.budget != 0) stays = layers * (geometry.pages_for(cell.budget) + 3);
  const uint64_t least = cell.batch * stays + (cell.budget != 0 ? prompt : 0);
  if (least > pages) {
    const auto mib = [&](uint64_t count) { return (count * geometry.page_bytes()) >> 20; };
    return absl::ResourceExhaustedError(
        absl::StrCat("wants ", mib(least), " MiB of pages, the pool has ", mib(pages)));
  }
  if (cell.budget == 0) return cell.batch;
  return static_cast<uint32_t>(
      std::min<uint64_t>(cell.batch, (pages - cell.batch * stays) / prompt));
}

void PutFailure(const SpeedRun& run, Json json, const absl::Status& status) {
  json["state"] = absl::IsResourceExhausted(status) ? "does not fit" : "failed";
  json["detail"] = std::string(status.message());
  run.put(json);
}

// Seconds of the measured steps.
absl::StatusOr<double> MeasurePeer(const SpeedRun& run, const DecodeCell& cell) {
  auto peer = PlainDecode::Make(run.model, cell.batch, cell.context, run.warm_up + run.steps);
  if (!peer.ok()) return peer.status();
  absl::Status status;
  for (uint32_t i = 0; i < run.warm_up && status.ok(); ++i) status = (*peer)->Step();
  status.Update((*peer)->Finish());
  const absl::Time start = absl::Now();
  for (uint32_t i = 0; i < run.steps && status.ok(); ++i) status = (*peer)->Step();
  status.Update((*peer)->Finish());
  if (!status.ok()) return status;
  return absl::ToDoubleSeconds(absl::Now() - start);
}

}  // namespace

Json SpeedRun::Record(const std::string& record) const {
  Json json;
  json["record"] = record;
  json["model"] = model.config().name;
  if (model.type() == kernels::cuda::DataType::kE4M3) json["compute"] = "fp8";
  return json;
}

void SpeedRun::LeaveOut(Json record) const {
  record["state"] = "not run";
  record["detail"] = "the time was up";
  put(record);
}

folio::v1::CacheOptions CacheOf(uint32_t budget, bool synchronous) {
  folio::v1::CacheOptions cache;
  if (budget == 0) return cache;
  cache.mutable_policy()->mutable_paged_eviction();
  cache.set_budget_tokens(budget);
  if (synchronous) cache.set_eviction_mode(folio::v1::EVICTION_MODE_SYNCHRONOUS);
  return cache;
}

absl::StatusOr<Measured> MeasureDecode(const SpeedRun& run, ServingHarness& harness,
                                       const DecodeCell& cell, bool synchronous) {
  Workload work = {.sequences = cell.batch,
                   .context = cell.context,
                   .decode_steps = run.steps,
                   .cache = CacheOf(cell.budget, synchronous),
                   .warm_up_steps = run.warm_up};
  // No longer than there are positions.
  const uint32_t measured = run.steps + run.warm_up;
  const uint32_t room = run.model.config().context - cell.context;
  work.spare_tokens = std::min(cell.budget == 0 ? kSpareFull : kSpareEvicting, room - measured - 1);
  const auto together = Together(run, cell, measured + work.spare_tokens);
  if (!together.ok()) return together.status();
  work.together = *together;
  const absl::Time start = absl::Now();
  auto result = harness.Run(work);
  run.decodes.Note(cell.tokens(), absl::Now() - start);
  return result;
}

double LimitSeconds(const SpeedRun& run, double batch, double resident_tokens) {
  const ModelCosts& costs = run.model.costs();
  const double flops = 2 * (costs.layer_weights + costs.output_weights) * batch;
  return std::max(costs.weight_bytes / run.limits.copy_bytes, flops / run.limits.flops) +
         costs.kv_bytes * resident_tokens / run.limits.copy_bytes;
}

void RunGrid(const SpeedRun& run, const std::vector<DecodeCell>& cells) {
  const auto harness = run.model.Serve(Prompts::kSynthetic);
  for (const DecodeCell& cell : cells) {
    Json json = CellRecord(run, "decode", cell);
    if (cell.budget > cell.context) {
      json["state"] = "as full";
      run.put(json);
      continue;
    }
    if (run.late(run.decodes, cell.tokens())) {
      run.LeaveOut(json);
      continue;
    }
    const absl::Time start = absl::Now();
    const auto measured = MeasureDecode(run, *harness, cell);
    if (!measured.ok()) {
      PutFailure(run, json, measured.status());
      continue;
    }
    const double step = measured->decode_seconds / measured->steps;
    const double limit = LimitSeconds(run, cell.batch, measured->resident_tokens);
    json["state"] = "measured";
    json["steps"] = measured->steps;
    json["seconds"] = absl::ToDoubleSeconds(absl::Now() - start);
    json["tokens_s"] = measured->decode_tokens / measured->decode_seconds;
    json["step_ms"] = step * 1e3;
    json["limit_ms"] = limit * 1e3;
    json["share_of_limit"] = limit / step;
    json["resident_tokens"] = measured->resident_tokens / cell.batch;
    json["manager_share"] = measured->manager_seconds / measured->decode_seconds;
    json["wait_share"] = measured->wait_seconds / measured->decode_seconds;
    run.put(json);
  }
}

void RunPeer(const SpeedRun& run, const std::vector<DecodeCell>& cells) {
  for (const DecodeCell& cell : cells) {
    Json json = CellRecord(run, "peer", cell);
    if (run.late(run.peers, cell.tokens())) {
      run.LeaveOut(json);
      continue;
    }
    const absl::Time start = absl::Now();
    const auto measured = MeasurePeer(run, cell);
    run.peers.Note(cell.tokens(), absl::Now() - start);
    if (!measured.ok()) {
      PutFailure(run, json, measured.status());
      continue;
    }
    const double seconds = *measured;
    json["state"] = "measured";
    json["steps"] = run.steps;
    json["seconds"] = absl::ToDoubleSeconds(absl::Now() - start);
    json["tokens_s"] = cell.batch * run.steps / seconds;
    json["step_ms"] = seconds / run.steps * 1e3;
    const double middle = cell.context + run.warm_up + run.steps / 2.0;
    json["share_of_limit"] =
        LimitSeconds(run, cell.batch, cell.batch * middle) * run.steps / seconds;
    run.put(json);
  }
}

}  // namespace folio::bench
