#include "tests/bench/gpu_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/stream.h"
#include "services/cache/decision_threads.h"
#include "services/model/cuda/cuda_executor.h"
#include "services/model/cuda/cuda_model.h"
#include "services/model/executor/rope.h"
#include "tests/bench/random_fill.h"
#include "tests/bench/synthetic_prompts.h"
#include "tests/bench/timed_link.h"
#include "tests/testing/in_process_link.h"

namespace folio::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::DataType;

constexpr uint32_t kPageTokens = 16;

// A session of one harness with the coordinator. Its sequences are closed when it goes.
class CoordinatorSide final : public ManagerSide {
 public:
  CoordinatorSide(cache::Coordinator& coordinator, const kernels::PoolView& pool)
      : coordinator_(coordinator),
        pool_(pool),
        worker_(coordinator.AddWorker("bench")),
        link_(std::make_unique<testing::InProcessLink>(
            coordinator, worker_,
            manager::CacheRules{pool.geometry.page_tokens, pool.geometry.num_layers, {}})) {}
  ~CoordinatorSide() override { coordinator_.FenceWorker(worker_, /*quiesced=*/true); }

  const kernels::PoolView& pool() const override { return pool_; }
  worker::ManagerLink* link() override { return &link_; }
  double manager_seconds() const override { return link_.seconds(); }

 private:
  cache::Coordinator& coordinator_;
  const kernels::PoolView pool_;
  const WorkerId worker_;
  TimedLink link_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GpuModel>> GpuModel::Make(const model::ModelConfig& config,
                                                         const GpuModelOptions& options) {
  const auto device = cuda::UseDevice(0);
  if (!device.ok()) return device.status();
  std::unique_ptr<GpuModel> made(new GpuModel(config, options));
  if (absl::Status status = made->MakePool(device->free_bytes); !status.ok()) return status;
  if (absl::Status status = made->MakeAngles(); !status.ok()) return status;
  auto tokenizer = model::Tokenizer::Create(made->source_.tokenizer(), config.vocab);
  if (!tokenizer.ok()) return tokenizer.status();
  made->tokenizer_ = *std::move(tokenizer);
  auto loaded = model::CudaModel::Load(made->source_, {.type = options.type});
  if (!loaded.ok()) return loaded.status();
  auto executor =
      model::MakeCudaExecutor(*std::move(loaded), made->pool_, {.max_rows = options.max_rows});
  if (!executor.ok()) return executor.status();
  made->executor_ = *std::move(executor);
  return made;
}

absl::Status GpuModel::MakePool(uint64_t free_bytes) {
  const model::ModelConfig& c = config();
  const CacheGeometry geometry = model::GeometryFor(c, kPageTokens);
  // Activations of a step, parts of attention, the workspace of products, and the peer's.
  constexpr uint64_t kSteps = uint64_t{4} << 30;
  const auto weights = static_cast<uint64_t>(costs_.weight_bytes) * (c.tied_embeddings ? 1 : 2);
  uint64_t bytes = options_.pool_bytes;
  if (bytes == 0) bytes = free_bytes > weights + kSteps ? free_bytes - weights - kSteps : 0;
  const auto pages = static_cast<uint32_t>(bytes / geometry.page_bytes());
  if (pages < 2 * c.num_layers) {
    return absl::ResourceExhaustedError(absl::StrCat(c.name, ": ", free_bytes >> 20,
                                                     " MiB of the GPU are free, its weights take ",
                                                     weights >> 20, " MiB"));
  }
  auto memory = memory_.Allocate(pages * geometry.page_bytes(), "the pool");
  if (!memory.ok()) return memory.status();
  pages_ = *std::move(memory);
  const size_t floats = geometry.score_board_floats(pages);
  auto board = cuda::PinnedBuffer::Allocate(floats * sizeof(float), "the score board");
  if (!board.ok()) return board.status();
  board_ = *std::move(board);
  host_pool_ = {nullptr, board_.as<float>(), pages, geometry};
  pool_ = {{pages_.as<>(), board_.on_device<float>(), pages, geometry}, DataType::kBf16};

  const auto stream = cuda::OwnedStream::Create();
  if (!stream.ok()) return stream.status();
  absl::Status status =
      cuda::RunAll({[&] {
                      return FillRandom(stream->get(), pages_.as<>(), pages_.bytes() / 2,
                                        DataType::kBf16, {-1, 1, 101});
                    },
                    [&] {
                      return FillRandom(stream->get(), board_.on_device<float>(), floats,
                                        DataType::kFloat32, {0.5f, 2, 102});
                    },
                    [&] { return cuda::WaitFor(stream->get()); }});
  if (!status.ok()) return status;
  cache::CoordinatorOptions options;
  options.geometry = geometry;
  options.num_pages = PageCount(pages);
  options.lease_ttl = absl::Hours(1);
  options.score_board = board_.as<float>();
  options.decision_threads = cache::DefaultDecisionThreads();
  options.clock = &clock_;
  coordinator_ = std::make_unique<cache::Coordinator>(options);
  return absl::OkStatus();
}

absl::Status GpuModel::MakeAngles() {
  model::RopeAngles on_host(config());
  const kernels::RopeTable table = on_host.Table(config().context);
  const size_t count = size_t{table.positions} * config().head_dim / 2;
  auto memory = memory_.Allocate(2 * count * sizeof(float), "angles of rotary embedding");
  if (!memory.ok()) return memory.status();
  angles_memory_ = *std::move(memory);
  const auto pinned = cuda::PinnedBuffer::Allocate(2 * count * sizeof(float), "the same");
  if (!pinned.ok()) return pinned.status();
  std::copy_n(table.cos, count, pinned->as<float>());
  std::copy_n(table.sin, count, pinned->as<float>() + count);
  auto* device = angles_memory_.as<float>();
  angles_ = {device, device + count, table.positions};
  absl::Status status = cuda::CopyToDevice(nullptr, device, pinned->as<>(), pinned->bytes());
  status.Update(cuda::WaitFor(nullptr));
  return status;
}

std::unique_ptr<ServingHarness> GpuModel::Serve(Prompts prompts) {
  std::shared_ptr<model::Executor> executor = executor_;
  worker::EngineOptions options;
  options.max_batch = options_.max_batch;
  options.token_budget = {options_.max_rows, options_.max_rows};
  if (prompts == Prompts::kSynthetic) {
    executor = std::make_shared<SyntheticPrompts>(executor_);
    options.token_budget = {uint32_t{1} << 29, uint32_t{1} << 29};
  }
  return ServingHarness::Start(std::make_unique<CoordinatorSide>(*coordinator_, host_pool_),
                               std::move(executor), tokenizer_.get(), config().vocab, options);
}

}  // namespace folio::bench
