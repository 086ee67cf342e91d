#include "tests/bench/serving_harness.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/base/steady_time.h"

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
  Recorder(const Workload& workload, const worker::Engine* engine, const model::Executor* executor,
           const ManagerSide* manager)
      : decode_steps_(workload.decode_steps),
        first_least_(1 + workload.warm_up_steps),
        engine_(engine),
        executor_(executor),
        manager_(manager),
        manager_seconds_before_(manager->manager_seconds()),
        tokens_(workload.sequences) {}

  void Token(uint32_t sequence, uint32_t count) {
    absl::MutexLock lock(&mutex_);
    tokens_[sequence] += count;
    const uint32_t least = *std::min_element(tokens_.begin(), tokens_.end());
    if (!begun_ && least >= first_least_) {
      begun_ = true;
      Snapshot(&begin_);
      last_least_ = least + decode_steps_;
    }
    if (begun_ && !over_ && least >= last_least_) {
      over_ = true;
      ended_before_ = done_;
      Snapshot(&end_);
    }
  }
  void Done(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    ++done_;
    if (!status.ok() && !absl::IsCancelled(status) && failure_.ok()) failure_ = status;
  }

  // Until each of the first `count` decodes, its prompt's plan being carried out and acknowledged,
  // or something failed.
  absl::Status AwaitDecoding(uint32_t count) {
    absl::MutexLock lock(&mutex_);
    admitted_ = count;
    mutex_.Await(absl::Condition(this, &Recorder::AdmittedDecodeOrFailed));
    return failure_;
  }
  // Until the measured steps are over or something failed.
  absl::Status AwaitMeasured() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(this, &Recorder::OverOrFailed));
    return failure_;
  }
  // Until `count` are done: those that were begun.
  void AwaitDone(size_t count) {
    absl::MutexLock lock(&mutex_);
    begun_count_ = count;
    mutex_.Await(absl::Condition(this, &Recorder::BegunAreDone));
  }

  // An error where the steps are not those of all sequences.
  absl::Status Fill(SteadyTime start, Measured* out) {
    absl::MutexLock lock(&mutex_);
    if (!over_) return absl::InternalError("sequences ended before the measured steps were over");
    if (decode_steps_ > 0 && ended_before_ > 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(ended_before_, " of ", tokens_.size(),
                       " sequences ended before the measured steps were over"));
    }
    out->prompts_seconds = begin_.seconds - absl::ToDoubleSeconds(start.since_zero());
    out->decode_seconds = end_.seconds - begin_.seconds;
    out->decode_tokens = end_.tokens - begin_.tokens;
    out->decode_times = Since(begin_.times, end_.times);
    out->steps = end_.counters.steps - begin_.counters.steps;
    out->wait_seconds = end_.counters.manager_wait_seconds - begin_.counters.manager_wait_seconds;
    out->manager_seconds = end_.manager_seconds - begin_.manager_seconds;
    out->prefill_manager_seconds = begin_.manager_seconds - manager_seconds_before_;
    out->generated = (begin_.tokens + end_.tokens) / 2 / static_cast<double>(tokens_.size());
    if (decode_steps_ == 0 || out->steps > 0) return absl::OkStatus();
    return absl::FailedPreconditionError("no step was measured");
  }

 private:
  struct Point {
    double seconds = 0;
    double tokens = 0;
    double manager_seconds = 0;
    worker::EngineCounters counters;
    model::ExecutorTimes times;
  };
  bool AdmittedDecodeOrFailed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !failure_.ok() || std::all_of(tokens_.begin(), tokens_.begin() + admitted_,
                                         [](uint32_t count) { return count > 1; });
  }
  bool OverOrFailed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return over_ || !failure_.ok() || done_ == tokens_.size();
  }
  bool BegunAreDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return done_ >= begun_count_; }
  void Snapshot(Point* point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    point->seconds = absl::ToDoubleSeconds(SteadyNow().since_zero());
    for (const uint32_t count : tokens_) point->tokens += count;
    point->counters = engine_->counters();
    point->times = executor_->times();  // we are on its thread
    point->manager_seconds = manager_->manager_seconds();
  }

  const uint32_t decode_steps_;
  const uint32_t first_least_;  // tokens that each has when the measuring begins
  const worker::Engine* const engine_;
  const model::Executor* const executor_;
  const ManagerSide* const manager_;
  const double manager_seconds_before_;
  absl::Mutex mutex_;
  std::vector<uint32_t> tokens_ ABSL_GUARDED_BY(mutex_);
  bool begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  uint32_t last_least_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t begun_count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_before_ ABSL_GUARDED_BY(mutex_) = 0;  // the measured steps were over
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Point begin_ ABSL_GUARDED_BY(mutex_), end_ ABSL_GUARDED_BY(mutex_);
};

class Sink final : public worker::ResultSink {
 public:
  Sink(uint32_t index, Recorder* recorder) : index_(index), recorder_(recorder) {}
  void OnEvent(worker::Event event) override {
    if (const auto* chunk = std::get_if<worker::TokenChunk>(&event)) {
      if (first_token_ == SteadyTime::InfinitePast()) first_token_ = SteadyNow();
      recorder_->Token(index_, static_cast<uint32_t>(chunk->tokens.size()));
    }
  }
  void OnEnd(absl::Status status) override { recorder_->Done(status); }
  SteadyTime first_token() const { return first_token_; }

 private:
  const uint32_t index_;
  Recorder* const recorder_;
  SteadyTime first_token_ = SteadyTime::InfinitePast();
};

// Ids that differ between sequences and runs, so that nothing could be shared.
std::vector<TokenId> Prompt(uint32_t length, uint32_t seed, uint32_t vocab) {
  std::vector<TokenId> prompt(length);
  for (uint32_t i = 0; i < length; ++i)
    prompt[i] = TokenId((i * 7919u + seed * 104729u) % (vocab * 4 / 5) + vocab / 10);
  return prompt;
}

}  // namespace

std::unique_ptr<ServingHarness> ServingHarness::Start(std::unique_ptr<ManagerSide> manager,
                                                      std::shared_ptr<model::Executor> executor,
                                                      const model::Tokenizer* tokenizer,
                                                      uint32_t vocab,
                                                      worker::EngineOptions options) {
  std::unique_ptr<ServingHarness> harness(new ServingHarness());
  harness->manager_ = std::move(manager);
  harness->executor_ = std::move(executor);
  harness->vocab_ = vocab;
  options.geometry = harness->manager_->pool().geometry;
  options.num_pages = harness->manager_->pool().num_pages;
  harness->engine_ =
      std::make_unique<worker::Engine>(options, harness->executor_.get(), harness->manager_->link(),
                                       &harness->queue_, tokenizer, &harness->gauge_);
  harness->thread_ =
      std::thread([engine = harness->engine_.get()] { engine->Run().IgnoreError(); });
  return harness;
}

ServingHarness::~ServingHarness() {
  if (engine_ != nullptr) engine_->Drain(SteadyNow());
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<worker::Submission> ServingHarness::MakeSubmission(const Workload& workload,
                                                                   uint32_t sequence,
                                                                   uint32_t new_tokens) const {
  auto submission = std::make_shared<worker::Submission>();
  submission->request.prompt = Prompt(workload.context, runs_ * 100 + sequence, vocab_);
  submission->request.max_new_tokens = new_tokens;
  submission->request.cache.bytes = workload.cache.SerializeAsString();
  submission->request.sampling.seed = 1;
  submission->request.output.ignore_eos = true;
  submission->request.label = absl::StrCat("bench-", sequence);
  return submission;
}

absl::Status ServingHarness::Push(const std::shared_ptr<worker::Submission>& submission) {
  // The step loop's thread may still be opening the queue.
  absl::Status pushed = queue_.Push(submission);
  for (int tries = 0; absl::IsUnavailable(pushed) && tries < 1000; ++tries) {
    absl::SleepFor(absl::Milliseconds(1));
    pushed = queue_.Push(submission);
  }
  return pushed;
}

// Until the pages of sequences that have ended are the manager's again.
void ServingHarness::AwaitIdle() const {
  for (int tries = 0; engine_->counters().running > 0 && tries < 50000; ++tries) {
    absl::SleepFor(absl::Microseconds(100));
  }
}

absl::StatusOr<Measured> ServingHarness::Run(const Workload& workload) {
  // Those prefilled first decode while the others are prefilled; none may end before the measuring.
  const uint32_t chunks = workload.context / worker::TokenBudget{}.beside_decodes + 2;
  const uint32_t spare =
      workload.spare_tokens != 0 ? workload.spare_tokens : workload.sequences * chunks + 32;
  const uint32_t measured = workload.warm_up_steps + workload.decode_steps;
  const uint32_t new_tokens = workload.decode_steps == 0 ? 1 : measured + spare;
  Recorder recorder(workload, engine_.get(), executor_.get(), manager_.get());
  std::vector<std::unique_ptr<Sink>> sinks;
  std::vector<std::shared_ptr<worker::Submission>> submissions;
  const model::ExecutorTimes before = executor_->times();
  ++runs_;
  // All are made before one is pushed: those that come first must not run far ahead.
  for (uint32_t i = 0; i < workload.sequences; ++i) {
    submissions.push_back(MakeSubmission(workload, i, new_tokens));
    sinks.push_back(std::make_unique<Sink>(i, &recorder));
    submissions.back()->sink = sinks.back().get();
  }
  const SteadyTime start = SteadyNow();
  uint32_t pushed = 0;
  absl::Status status;
  while (pushed < workload.sequences && status.ok()) {
    submissions[pushed]->request.arrival = start;
    status = Push(submissions[pushed]);
    if (!status.ok()) break;
    ++pushed;
    if (workload.together != 0 && pushed % workload.together == 0) {
      status = recorder.AwaitDecoding(pushed);
    }
  }
  if (status.ok()) status = recorder.AwaitMeasured();
  for (const auto& submission : submissions) queue_.Cancel(*submission, CloseReason::kCancelled);
  recorder.AwaitDone(pushed);
  AwaitIdle();
  if (!status.ok()) return status;

  Measured out;
  if (absl::Status filled = recorder.Fill(start, &out); !filled.ok()) return filled;
  out.prefill_seconds = absl::ToDoubleSeconds(sinks[0]->first_token() - start);
  const double grown = workload.context + out.generated;
  const uint32_t budget = workload.cache.budget_tokens();
  const double page = manager_->pool().geometry.page_tokens;
  out.resident_tokens =
      workload.sequences * (budget == 0 ? grown : std::min(grown, budget + page / 2));
  // The step loop is idle now: the executor may be asked from here.
  out.times = Since(before, executor_->times());
  return out;
}

}  // namespace folio::bench
