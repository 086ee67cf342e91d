#include "services/worker/device/loaded_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "kernels/threads/thread_pool.h"
#include "services/base/check.h"
#include "services/model/cpu/cpu_executor.h"
#include "services/model/family/family.h"
#include "services/model/source/padded_heads.h"
#include "services/model/tp/tp_executor.h"
#include "services/wire/layout.h"

namespace folio::worker {

absl::StatusOr<std::unique_ptr<kernels::cpu::CpuOps>> MakeOps(const ComputeOptions& options) {
  if (options.compute == "float32") {
    if (options.kernels == "auto" || options.kernels == "plain")
      return kernels::cpu::MakePlainOps();
    return absl::InvalidArgumentError(
        absl::StrCat("--kernels=", options.kernels,
                     ": --compute=float32 has only plain kernels; leave it auto"));
  }
  if (options.compute != "bfloat16") {
    return absl::InvalidArgumentError(
        absl::StrCat("--compute=", options.compute, ": must be float32 or bfloat16 on the CPU",
                     options.compute == kFp8 ? "; fp8 is for --device=cuda" : ""));
  }
  auto ops = kernels::cpu::MakeFastOps(options.kernels);
  if (ops.ok()) return ops;
  return absl::Status(ops.status().code(),
                      absl::StrCat("--kernels=", options.kernels, ": ", ops.status().message()));
}

namespace {

// By default weights stay as they are where the fast kernels compute. They take a half to a
// quarter of the memory and of the time of a decoded token, and what differs is smaller than what
// the file's quantisation has lost. The plain reference is exact about the stored values instead.
// On GPUs the products have not been measured yet.
model::HeldWeights HeldBy(const ComputeOptions& options, bool gpu) {
  const bool as_is = options.weights == kWeightsAuto ? !gpu && options.compute == "bfloat16"
                                                     : options.weights == kAsIs;
  return as_is ? model::HeldWeights::kAsStored : model::HeldWeights::kBfloat16;
}

// Whether some matrix has a type that kernels compute with.
bool AnyQuantized(const model::ModelSource& source) {
  const auto quantized = [&](model::Role role, uint32_t layer) {
    const auto matrix = source.ReadQuantized(role, layer);
    return matrix.ok() && *matrix != nullptr;
  };
  using enum model::Role;
  if (quantized(kEmbedding, 0) || quantized(kOutput, 0)) return true;
  for (uint32_t layer = 0; layer < source.config().num_layers; ++layer) {
    for (const model::Role role : {kQuery, kKey, kValue, kAttentionOut, kGate, kUp, kDown}) {
      if (quantized(role, layer)) return true;
    }
  }
  return false;
}

// The model with heads of a size that GPUs serve. One that cannot be padded is refused when it is
// loaded.
std::unique_ptr<model::ModelSource> PaddedForGpu(std::unique_ptr<model::ModelSource> source) {
  const uint32_t head_dim = source->config().head_dim;
  const uint32_t served = kernels::cuda::ServedHeads(head_dim);
  if (served == 0 || served == head_dim || !model::PaddedHeads::Serves(source->config())) {
    return source;
  }
  return std::make_unique<model::PaddedHeads>(std::move(source), served);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadedModel::Load(const ModelOptions& options,
                                                               const ComputeOptions& compute,
                                                               const model::LoadProgress& progress,
                                                               const TpRank& self, Gpu* gpu) {
  const std::string& path = options.path;
  auto source = model::OpenModel(path, options.max_context);
  if (!source.ok()) return source.status();
  if (gpu != nullptr) source = PaddedForGpu(*std::move(source));
  const model::ModelConfig& config = (*source)->config();
  if (config.context < options.max_context) {
    return absl::InvalidArgumentError(absl::StrCat("--max_context=", options.max_context, ": ",
                                                   path, " serves at most ", config.context,
                                                   " tokens"));
  }
  auto tokenizer = model::Tokenizer::Create((*source)->tokenizer(), config.vocab);
  if (!tokenizer.ok()) {
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(path, ": ", tokenizer.status().message()));
  }
  auto shards = model::ShardForAll(config, self.ranks);
  if (!shards.ok()) return shards.status();
  std::unique_ptr<LoadedModel> loaded(new LoadedModel());
  loaded->options_ = compute;
  loaded->self_ = self;
  loaded->config_ = config;
  loaded->tokenizer_ = *std::move(tokenizer);
  loaded->gpu_ = gpu;
  folio::v1::ModelLayout& layout = loaded->layout_;
  layout.set_model(options.name.empty() ? config.name : options.name);
  layout.set_fingerprint((*source)->fingerprint());
  wire::SetGeometry(model::GeometryFor(config, options.page_tokens), &layout);
  layout.set_data_type(folio::v1::DATA_TYPE_BFLOAT16);
  for (const model::Shard& shard : *shards) {
    if (self.ranks > 1) layout.add_rank_kv_heads(shard.kv_heads.count);
  }
  loaded->shards_ = *std::move(shards);
  const model::HeldWeights held = HeldBy(compute, gpu != nullptr);
  const auto kernels = gpu == nullptr ? loaded->LoadForCpu(**source, held, progress)
                                      : loaded->LoadForGpu(**source, held, progress);
  if (!kernels.ok()) return kernels.status();
  // Products with quantised weights give other numbers, and workers that share pages must agree.
  // All ranks say the same, also one whose own part of every matrix is held in bfloat16.
  if (held == model::HeldWeights::kAsStored && AnyQuantized(**source)) {
    layout.set_fingerprint(absl::StrCat(layout.fingerprint(), "-", kAsIs));
  }
  loaded->Describe(*kernels);
  return loaded;
}

absl::StatusOr<std::string> LoadedModel::LoadForCpu(const model::ModelSource& source,
                                                    model::HeldWeights held,
                                                    const model::LoadProgress& progress) {
  auto ops = MakeOps(options_);
  if (!ops.ok()) return ops.status();
  kernels::ThreadPool threads(options_.threads);
  const model::ShardSource part(source, shards_.at(self_.rank.value()));
  auto weights = model::LoadWeights(part, **ops, threads, progress, held);
  if (!weights.ok()) return weights.status();
  weights_ = *std::move(weights);
  return std::string((*ops)->name());
}

absl::StatusOr<std::string> LoadedModel::LoadForGpu(const model::ModelSource& source,
                                                    model::HeldWeights held,
                                                    const model::LoadProgress& progress) {
  const model::ShardSource part(source, shards_.at(self_.rank.value()));
  const bool fp8 = options_.compute == kFp8;
  const auto type = fp8 ? kernels::cuda::DataType::kE4M3 : kernels::cuda::DataType::kBf16;
  auto weights = gpu_->Load(part, type, held, options_.threads, progress);
  if (!weights.ok()) {
    absl::string_view why = weights.status().message();
    if (!absl::ConsumePrefix(&why, "FP8: ")) return weights.status();
    return absl::Status(weights.status().code(), absl::StrCat("--compute=fp8: ", why));
  }
  on_gpu_ = *std::move(weights);
  return options_.kernels == kLibraries ? std::string(kLibraries) : "cuda";
}

void LoadedModel::Describe(absl::string_view kernels) {
  const model::ModelConfig& config = config_;
  folio::v1::GetModelResponse& out = description_;
  *out.mutable_layout() = layout_;
  out.set_architecture(config.architecture);
  out.set_vocab_size(config.vocab);
  out.set_context_length(config.context);
  out.set_hidden_size(config.hidden);
  out.set_num_attention_heads(config.heads);
  out.set_parameters(model::CountParameters(config));
  out.set_weight_bytes(on_gpu_ != nullptr ? on_gpu_->weight_bytes() : weights_->bytes());
  out.set_device(gpu_ != nullptr ? gpu_->info().ToString() : "cpu");
  out.set_compute(options_.compute);
  out.set_kernels(std::string(kernels));
  out.set_threads(static_cast<uint32_t>(options_.threads));
  out.set_chat_template(tokenizer_->has_chat_template());
  for (const uint32_t id : tokenizer_->eos_ids()) out.add_eos_tokens(id);
  out.set_kv_bytes_per_token(
      model::GeometryFor(config, layout_.page_tokens()).kv_bytes_per_token());
}

absl::StatusOr<std::shared_ptr<model::CudaCommunicator>> LoadedModel::MakeCommunicator(
    collective::Collective& host, uint32_t max_rows) const {
  FOLIO_CHECK(host.size() == shards_.size());
  if (on_gpu_ == nullptr) return nullptr;
  return on_gpu_->MakeCommunicator(shards_, host, max_rows);
}

absl::StatusOr<std::unique_ptr<model::Executor>> LoadedModel::MakeOwnExecutor(
    const kernels::PoolView& pool, uint32_t max_rows, const RankGroup* group) const {
  if (on_gpu_ != nullptr) {
    return on_gpu_->MakeExecutor(pool, max_rows, options_.kernels != kLibraries,
                                 group != nullptr ? group->gpus : nullptr);
  }
  auto ops = MakeOps(options_);
  if (!ops.ok()) return ops.status();
  model::CpuExecutorOptions options;
  options.max_rows = max_rows;
  if (group != nullptr) {
    options.group.shards = shards_;
    options.group.collective = group->host;
  }
  return model::MakeCpuExecutor(weights_, *std::move(ops), options_.threads, pool, options);
}

absl::StatusOr<std::unique_ptr<model::Executor>> LoadedModel::MakeExecutor(
    const kernels::PoolView& pool, uint32_t max_rows, const RankGroup* group) const {
  FOLIO_CHECK((shards_.size() > 1) == (group != nullptr));
  auto own = MakeOwnExecutor(pool, max_rows, group);
  if (!own.ok() || group == nullptr || !group->host->leads()) return own;
  return model::MakeTpExecutor(*std::move(own), group->host);
}

}  // namespace folio::worker
