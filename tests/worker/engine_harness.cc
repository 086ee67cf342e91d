#include "tests/worker/engine_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "services/base/check.h"
#include "services/base/steady_time.h"
#include "services/cache/inspector.h"
#include "services/client/policy_text.h"
#include "services/worker/rpc/event_messages.h"
#include "tests/testing/scratch_directory.h"
#include "tests/testing/tiny_model.h"
#include "tests/testing/tiny_vocabulary.h"
#include "tests/worker/late_executor.h"

namespace folio::worker::testing {

const LoadedModel& TinyLoadedModel() {
  static const LoadedModel* const model = [] {
    const folio::testing::ScratchDirectory scratch;
    const std::string path = scratch.File("tiny.gguf");
    folio::testing::TinyModel().WriteGguf(path);
    ComputeOptions compute;
    compute.compute = "float32";
    auto loaded = LoadedModel::Load({.path = path, .page_tokens = kPageTokens}, compute, nullptr);
    if (!loaded.ok()) ADD_FAILURE() << loaded.status();
    FOLIO_CHECK(loaded.ok());
    return loaded->release();
  }();
  return *model;
}

ModelLimits TinyLimits() {
  const LoadedModel& model = TinyLoadedModel();
  return {&model.tokenizer(), model.config().vocab, model.config().context};
}

void Recorder::OnEvent(Event value) {
  const v1::GenerateResponse event = ToProto(std::move(value));
  if (on_event) on_event(event);
  switch (event.event_case()) {
    case v1::GenerateResponse::kStarted:
      started = event.started();
      break;
    case v1::GenerateResponse::kChunk: {
      const v1::TokenChunk& chunk = event.chunk();
      tokens.insert(tokens.end(), chunk.tokens().begin(), chunk.tokens().end());
      for (const v1::TokenLogprob& logprob : chunk.logprobs()) {
        logprobs.push_back(logprob.logprob());
      }
      texts.push_back(chunk.text());
      absl::MutexLock lock(&mutex_);
      count_ += chunk.tokens_size();
      break;
    }
    case v1::GenerateResponse::kEviction:
      evictions.push_back(event.eviction().ShortDebugString());
      eviction_events.push_back(event.eviction());
      break;
    case v1::GenerateResponse::kFinished:
      finished = event.finished();
      break;
    default:
      break;
  }
}

void Recorder::OnEnd(absl::Status why) {
  EXPECT_FALSE(done_.HasBeenNotified());
  status = std::move(why);
  done_.Notify();
}

bool Recorder::WaitForTokens(size_t count) {
  const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return count_ >= count; };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60));
}

std::string Recorder::text() const {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

namespace {

CacheGeometry Geometry() { return model::GeometryFor(TinyLoadedModel().config(), kPageTokens); }

cache::CoordinatorOptions CoordinatorFor(const HarnessOptions& options, const float* board,
                                         const Clock* clock) {
  cache::CoordinatorOptions out;
  out.geometry = Geometry();
  out.num_pages = PageCount(options.num_pages);
  out.lease_ttl = absl::Hours(1);
  out.orphan_ttl = options.orphan_ttl;
  out.admission = options.admission;
  out.swap_slots = options.swap_slots;
  out.score_board = board;
  out.clock = clock;
  return out;
}

std::unique_ptr<model::Executor> ExecutorFor(const HarnessOptions& options,
                                             const kernels::PoolView& view) {
  auto executor =
      TinyLoadedModel().MakeExecutor(view, options.token_budget.alone + options.max_batch);
  FOLIO_CHECK(executor.ok());
  if (options.depth == 0) return *std::move(executor);
  return std::make_unique<LateExecutor>(*std::move(executor), view);
}

}  // namespace

EngineHarness::EngineHarness(const HarnessOptions& options)
    : options_(options),
      pages_(options.num_pages * Geometry().page_bytes(), std::byte{0xff}),
      scores_(Geometry().score_board_floats(options.num_pages), -1.0f),
      swap_(options.swap_slots * Geometry().swap_slot_bytes() / sizeof(float)),
      view_{pages_.data(), scores_.data(), options.num_pages, Geometry()},
      coordinator_(CoordinatorFor(options, scores_.data(), &clock_)) {
  view_.swap = {reinterpret_cast<std::byte*>(swap_.data()), options.swap_slots, scores_.data()};
  Attach();
}

void EngineHarness::Attach() {
  worker_ = coordinator_.AddWorker("harness");
  link_ = std::make_unique<folio::testing::InProcessLink>(
      coordinator_, worker_, manager::CacheRules{kPageTokens, Geometry().num_layers, {}},
      options_.lag);
  executor_ = ExecutorFor(options_, view_);
  const EngineOptions engine = {.geometry = Geometry(),
                                .num_pages = options_.num_pages,
                                .swap_slots = options_.swap_slots,
                                .vocab = TinyLoadedModel().config().vocab,
                                .context = TinyLoadedModel().config().context,
                                .token_budget = options_.token_budget,
                                .max_batch = options_.max_batch,
                                .queue_timeout = options_.queue_timeout,
                                .park_paused_after = options_.park_paused_after};
  engine_ = std::make_unique<Engine>(engine, executor_.get(), link_.get(), &queue_,
                                     &TinyLoadedModel().tokenizer(), &gauge_);
}

void EngineHarness::NextWorker() {
  coordinator_.ConfirmExited(worker_);
  Attach();
}

EngineHarness::~EngineHarness() {
  if (thread_.joinable()) {
    engine_->Drain(SteadyTime::InfiniteFuture());
    EXPECT_TRUE(Join().ok());
    EXPECT_TRUE(PagesAreBack());
  }
}

void EngineHarness::Start() {
  thread_ = std::thread([this] { result_ = engine_->Run(); });
  // A request that comes before the loop runs is refused.
  Recorder probe;
  auto submission = std::make_shared<Submission>();
  submission->request = Make({.prompt = 1, .max_new_tokens = 1});
  submission->sink = &probe;
  while (absl::IsUnavailable(queue_.Push(submission))) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(probe.Wait());
}

std::shared_ptr<Submission> EngineHarness::Push(SequenceRequest request, Recorder* recorder) {
  auto submission = std::make_shared<Submission>();
  submission->request = std::move(request);
  submission->request.arrival = SteadyNow();
  submission->sink = recorder;
  const absl::Status pushed = queue_.Push(submission);
  EXPECT_TRUE(pushed.ok()) << pushed;
  return submission;
}

std::unique_ptr<Recorder> EngineHarness::Run(SequenceRequest request) {
  auto recorder = std::make_unique<Recorder>();
  Push(std::move(request), recorder.get());
  EXPECT_TRUE(recorder->Wait());
  return recorder;
}

void EngineHarness::ScribbleOnFreePages() {
  std::vector<bool> held(options_.num_pages, false);
  for (const cache::SequenceInfo& info : cache::Inspector(coordinator_).sequences()) {
    const auto detail = cache::Inspector(coordinator_).sequence(info.id);
    FOLIO_CHECK(detail.ok());
    for (const cache::LayerTableInfo& layer : detail->layers) {
      for (const PageRef& ref : layer.pages) held[ref.page.value()] = true;
    }
  }
  const size_t page_bytes = Geometry().page_bytes();
  const size_t page_scores = Geometry().scores_per_page();
  for (uint32_t page = 0; page < options_.num_pages; ++page) {
    if (held[page]) continue;
    std::fill_n(pages_.begin() + page * page_bytes, page_bytes, std::byte{0xff});  // NaN
    for (const size_t channel : {size_t{0}, scores_.size() / 2}) {
      std::fill_n(scores_.begin() + channel + page * page_scores, page_scores, -1.0F);
    }
  }
}

void EngineHarness::DamagePageOf(SequenceId id) {
  const auto detail = cache::Inspector(coordinator_).sequence(id);
  FOLIO_CHECK(detail.ok());
  const size_t page = detail->layers.at(0).pages.at(0).page.value();
  const size_t page_bytes = Geometry().page_bytes();
  std::fill_n(pages_.begin() + page * page_bytes, page_bytes, std::byte{0xff});
}

bool EngineHarness::PagesAreBack() {
  const SteadyTime deadline = SteadyNow() + absl::Seconds(10);
  while (SteadyNow() < deadline) {
    const cache::PoolInfo pool = cache::Inspector(coordinator_).pool();
    if (pool.free == pool.total && pool.sequences == 0) {
      return cache::Inspector(coordinator_).CheckInvariants().ok();
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

absl::Status EngineHarness::Join() {
  thread_.join();
  return result_;
}

SequenceRequest Make(const Ask& ask) {
  SequenceRequest request;
  std::mt19937_64 random(ask.seed);
  for (uint32_t i = 0; i < ask.prompt; ++i) {
    // Not the control tokens.
    request.prompt.push_back(TokenId(3 + random() % (folio::testing::kTinyVocab - 3)));
  }
  request.max_new_tokens = ask.max_new_tokens;
  const auto policy = client::ParsePolicy(ask.policy);
  FOLIO_CHECK(policy.ok());
  v1::CacheOptions cache;
  *cache.mutable_policy() = *policy;
  if (ask.pyramid) cache.set_budget_schedule(v1::BUDGET_SCHEDULE_PYRAMID);
  cache.set_budget_tokens(ask.budget);
  cache.set_eviction_mode(ask.synchronous ? v1::EVICTION_MODE_SYNCHRONOUS
                                          : v1::EVICTION_MODE_PIPELINED);
  cache.set_compaction(ask.stride > 0 ? v1::COMPACTION_STREAMED : v1::COMPACTION_WHOLE);
  cache.set_compaction_stride_tokens(ask.stride);
  request.cache.bytes = cache.SerializeAsString();
  request.sampling.temperature = ask.temperature;
  request.sampling.seed = ask.seed;
  request.output.ignore_eos = true;
  request.output.logprobs = 0;
  request.report_evictions = true;
  return request;
}

}  // namespace folio::worker::testing
