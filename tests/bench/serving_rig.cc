#include "tests/bench/serving_rig.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace folio::bench {

namespace {

model::ExecutorTimes Since(const model::ExecutorTimes& before, const model::ExecutorTimes& now) {
  return {.attention = now.attention - before.attention,
          .linear = now.linear - before.linear,
          .append_score = now.append_score - before.append_score,
          .compact = now.compact - before.compact,
          .sample = now.sample - before.sample,
          .other = now.other - before.other,
          .score = now.score - before.score};
}

// Shared by the sequences of one run. Events come on the step loop's thread.
class Recorder {
 public:
  Recorder(uint32_t sequences, uint32_t decode_steps, const worker::Engine* engine,
           const model::Executor* executor, const ManagerSide* manager)
      : decode_steps_(decode_steps),
        engine_(engine),
        executor_(executor),
        manager_(manager),
        manager_seconds_before_(manager->manager_seconds()),
        tokens_(sequences) {}

  void Token(uint32_t sequence, uint32_t count) {
    absl::MutexLock lock(&mutex_);
    tokens_[sequence] += count;
    const uint32_t least = *std::min_element(tokens_.begin(), tokens_.end());
    if (!begun_ && least >= 1) {
      begun_ = true;
      Snapshot(&begin_);
      first_least_ = least;
    }
    if (begun_ && !over_ && least >= first_least_ + decode_steps_) {
      over_ = true;
      Snapshot(&end_);
    }
  }
  void Done(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    ++done_;
    if (!status.ok() && !absl::IsCancelled(status) && failure_.ok()) failure_ = status;
  }

  // Until the measured steps are over or something failed.
  absl::Status AwaitMeasured() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](Recorder* self) { return self->over_ || !self->failure_.ok() || self->AllDone(); },
        this));
    return failure_;
  }
  void AwaitDone() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Recorder::AllDone));
  }

  void Fill(Measured* out) {
    absl::MutexLock lock(&mutex_);
    out->decode_seconds = end_.seconds - begin_.seconds;
    out->decode_tokens = end_.tokens - begin_.tokens;
    out->decode_times = Since(begin_.times, end_.times);
    out->steps = end_.counters.steps - begin_.counters.steps;
    out->wait_seconds = end_.counters.manager_wait_seconds - begin_.counters.manager_wait_seconds;
    out->manager_seconds = end_.manager_seconds - begin_.manager_seconds;
    out->prefill_manager_seconds = begin_.manager_seconds - manager_seconds_before_;
  }

 private:
  struct Point {
    double seconds = 0;
    double tokens = 0;
    double manager_seconds = 0;
    worker::EngineCounters counters;
    model::ExecutorTimes times;
  };
  bool AllDone() const ABSL_NO_THREAD_SAFETY_ANALYSIS { return done_ == tokens_.size(); }
  void Snapshot(Point* point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    point->seconds = absl::ToUnixNanos(absl::Now()) * 1e-9;
    for (const uint32_t count : tokens_) point->tokens += count;
    point->counters = engine_->counters();
    point->times = executor_->times();  // we are on its thread
    point->manager_seconds = manager_->manager_seconds();
  }

  const uint32_t decode_steps_;
  const worker::Engine* const engine_;
  const model::Executor* const executor_;
  const ManagerSide* const manager_;
  const double manager_seconds_before_;
  absl::Mutex mutex_;
  std::vector<uint32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t first_least_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Point begin_ ABSL_GUARDED_BY(mutex_), end_ ABSL_GUARDED_BY(mutex_);
};

class Sink final : public worker::ResultSink {
 public:
  Sink(uint32_t index, Recorder* recorder) : index_(index), recorder_(recorder) {}
  void Event(folio::v1::GenerateResponse event) override {
    if (event.has_chunk()) {
      if (first_token_ == absl::InfinitePast()) first_token_ = absl::Now();
      recorder_->Token(index_, static_cast<uint32_t>(event.chunk().tokens_size()));
    }
  }
  void Done(absl::Status status) override { recorder_->Done(status); }
  absl::Time first_token() const { return first_token_; }

 private:
  const uint32_t index_;
  Recorder* const recorder_;
  absl::Time first_token_ = absl::InfinitePast();
};

// Ids that differ between sequences and runs, so that nothing could be shared.
std::vector<TokenId> Prompt(uint32_t length, uint32_t seed, uint32_t vocab) {
  std::vector<TokenId> prompt(length);
  for (uint32_t i = 0; i < length; ++i)
    prompt[i] = TokenId((i * 7919u + seed * 104729u) % (vocab * 4 / 5) + vocab / 10);
  return prompt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServingRig>> ServingRig::Start(const worker::LoadedModel* model,
                                                              std::unique_ptr<ManagerSide> manager,
                                                              uint32_t prefill_chunk) {
  std::unique_ptr<ServingRig> rig(new ServingRig());
  rig->manager_ = std::move(manager);
  rig->vocab_ = model->config().vocab;
  worker::EngineOptions options;
  options.geometry = rig->manager_->pool().geometry;
  options.num_pages = rig->manager_->pool().num_pages;
  options.prompt_chunk.alone = prefill_chunk;
  auto executor =
      model->MakeExecutor(rig->manager_->pool(), options.prompt_chunk.alone + options.max_batch);
  if (!executor.ok()) return executor.status();
  rig->executor_ = *std::move(executor);
  rig->engine_ = std::make_unique<worker::Engine>(
      options, rig->executor_.get(), rig->manager_->link(), &rig->queue_, &model->tokenizer());
  rig->thread_ = std::thread([engine = rig->engine_.get()] { engine->Run().IgnoreError(); });
  return rig;
}

ServingRig::~ServingRig() {
  if (engine_ != nullptr) engine_->Drain(absl::Now());
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<Measured> ServingRig::Run(const Workload& workload) {
  // Those prefilled first decode while the others are prefilled; none may end before the measuring.
  const uint32_t chunks = workload.context / worker::PromptChunk{}.beside_decodes + 2;
  const uint32_t spare = workload.sequences * chunks + 32;
  const uint32_t new_tokens = workload.decode_steps == 0 ? 1 : workload.decode_steps + spare;
  Recorder recorder(workload.sequences, workload.decode_steps, engine_.get(), executor_.get(),
                    manager_.get());
  std::vector<std::unique_ptr<Sink>> sinks;
  std::vector<std::shared_ptr<worker::Submission>> submissions;
  const model::ExecutorTimes before = executor_->times();
  const absl::Time start = absl::Now();
  ++runs_;
  for (uint32_t i = 0; i < workload.sequences; ++i) {
    auto submission = std::make_shared<worker::Submission>();
    submission->request.prompt = Prompt(workload.context, runs_ * 100 + i, vocab_);
    submission->request.max_new_tokens = new_tokens;
    submission->request.cache = workload.cache;
    submission->request.sampling.set_seed(1);
    submission->request.ignore_eos = true;
    submission->request.label = absl::StrCat("bench-", i);
    submission->request.arrival = start;
    sinks.push_back(std::make_unique<Sink>(i, &recorder));
    submission->sink = sinks.back().get();
    // The step loop's thread may still be opening the queue.
    absl::Status pushed = queue_.Push(submission);
    for (int tries = 0; absl::IsUnavailable(pushed) && tries < 1000; ++tries) {
      absl::SleepFor(absl::Milliseconds(1));
      pushed = queue_.Push(submission);
    }
    if (!pushed.ok()) return pushed;
    submissions.push_back(std::move(submission));
  }
  absl::Status status = recorder.AwaitMeasured();
  for (const auto& submission : submissions)
    queue_.Cancel(*submission, folio::v1::CLOSE_REASON_CANCELLED);
  recorder.AwaitDone();
  if (!status.ok()) return status;

  Measured out;
  recorder.Fill(&out);
  out.prefill_seconds = absl::ToDoubleSeconds(sinks[0]->first_token() - start);
  const double grown = workload.context + spare / 2.0 + workload.decode_steps / 2.0;
  const uint32_t budget = workload.cache.budget_tokens();
  const double page = manager_->pool().geometry.page_tokens;
  out.resident_tokens =
      workload.sequences * (budget == 0 ? grown : std::min(grown, budget + page / 2));
  // The step loop is idle now: the executor may be asked from here.
  out.times = Since(before, executor_->times());
  return out;
}

}  // namespace folio::bench
