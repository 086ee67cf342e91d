#include "services/gateway/workers/worker_set.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "services/base/steady_wait.h"
#include "services/gateway/workers/worker_choice.h"
#include "services/runtime/logging.h"

namespace folio::gateway {
namespace {

constexpr absl::Duration kAnswerTimeout = absl::Seconds(2);  // of a question after health

}  // namespace

class WorkerSet::State {
 public:
  struct Worker {
    WorkerView view;
    std::string why;  // it does not serve
    bool asked = false;
  };

  absl::Status Connect(const WorkerSetOptions& options) {
    options_ = options;
    std::vector<std::string> addresses = options.workers;
    addresses.insert(addresses.end(), options.standby.begin(), options.standby.end());
    client::StreamsOptions streams_options;
    streams_options.connect.check = false;
    streams_options.connect.tls = options.tls;
    streams_options.connect.token_file = options.token_file;
    streams_options.connections = options.connections;
    auto streams = client::Streams::Connect(addresses, streams_options);
    if (!streams.ok()) return streams.status();
    streams_ = *std::move(streams);
    const absl::MutexLock lock(&mutex_);
    for (const std::string& address : addresses) {
      auto calls = client::WorkerCalls::Connect(address, streams_options.connect);
      if (!calls.ok()) return calls.status();
      calls_.push_back(*std::move(calls));
      WorkerView view;
      view.address = address;
      view.standby = workers_.size() >= options.workers.size();
      workers_.push_back({std::move(view), "", false});
    }
    return absl::OkStatus();
  }

  // Asks all workers, and waits for their answers or their time.
  void AskAll() {
    auto left = std::make_shared<absl::BlockingCounter>(static_cast<int>(calls_.size()));
    for (size_t i = 0; i < calls_.size(); ++i) Ask(i, [left] { left->DecrementCount(); });
    left->Wait();
  }

  void Watch() {
    for (;;) {
      {
        const absl::MutexLock lock(&mutex_);
        const auto ends = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_; };
        if (changed_.Await(&mutex_, SteadyNow() + options_.health_interval, ends)) return;
      }
      AskAll();
    }
  }

  void StartWatching() {
    thread_ = std::thread([this] { Watch(); });
  }
  void End() {
    {
      const absl::MutexLock lock(&mutex_);
      ending_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
    calls_.clear();
    streams_.reset();
  }

  absl::StatusOr<size_t> Choose(absl::string_view model, absl::string_view key, uint32_t requests) {
    const absl::MutexLock lock(&mutex_);
    std::vector<WorkerLoad> loads;
    loads.reserve(workers_.size());
    bool known = false;
    for (const Worker& worker : workers_) {
      const bool has = HasModel(worker, model);
      known |= has || worker.view.model.empty();
      loads.push_back({worker.view.address, has && worker.view.serving, worker.view.standby,
                       worker.view.running});
    }
    if (!known) {
      return absl::NotFoundError(absl::StrCat("The model '", model, "' does not exist. There is ",
                                              absl::StrJoin(Names(), ", "), "."));
    }
    const auto chosen = ChooseWorker(loads, key, turn_++);
    if (!chosen.has_value()) return absl::UnavailableError(WhyNone());
    workers_[*chosen].view.running += requests;
    return *chosen;
  }

  void Return(size_t worker, uint32_t requests) {
    const absl::MutexLock lock(&mutex_);
    workers_[worker].view.running -= requests;
  }

  void AwaitAll() {
    const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      for (const Worker& worker : workers_) {
        if (worker.view.running > 0) return false;
      }
      return true;
    };
    const absl::MutexLock lock(&mutex_, absl::Condition(&none));
  }

  void NoteLoss(size_t worker) { SetServing(worker, false, "a stream was lost"); }

  std::vector<WorkerView> View() const {
    const absl::MutexLock lock(&mutex_);
    std::vector<WorkerView> views;
    for (const Worker& worker : workers_) views.push_back(worker.view);
    return views;
  }

  const WorkerSetOptions& options() const { return options_; }
  client::Streams& streams() { return *streams_; }
  client::WorkerCalls& calls(size_t worker) { return *calls_[worker]; }

 private:
  bool HasModel(const Worker& worker, absl::string_view model) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (worker.view.model.empty()) return false;
    if (model.empty()) return true;
    if (options_.aliases.empty()) return worker.view.model == model;
    return std::find(options_.aliases.begin(), options_.aliases.end(), model) !=
           options_.aliases.end();
  }

  std::vector<std::string> Names() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!options_.aliases.empty()) return options_.aliases;
    std::vector<std::string> names;
    for (const Worker& worker : workers_) {
      if (std::find(names.begin(), names.end(), worker.view.model) == names.end()) {
        names.push_back(worker.view.model);
      }
    }
    return names;
  }

  std::string WhyNone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string why = "No worker serves now";
    for (const Worker& worker : workers_) {
      if (!worker.why.empty()) absl::StrAppend(&why, "; ", worker.why);
    }
    return why;
  }

  void Ask(size_t worker, const std::function<void()>& then) {
    client::CallOptions options;
    options.deadline = SteadyNow() + kAnswerTimeout;
    calls_[worker]->IsServing(options, [this, worker, then](const absl::StatusOr<bool>& serving) {
      if (serving.ok() && *serving && NeedsModel(worker)) {
        return AskModel(worker, then);
      }
      const std::string why =
          serving.ok() ? "it does not accept requests" : std::string(serving.status().message());
      SetServing(worker, serving.value_or(false), why);
      then();
    });
  }

  // A worker that was not there may have come back with another model.
  bool NeedsModel(size_t worker) const {
    const absl::MutexLock lock(&mutex_);
    return workers_[worker].view.model.empty() || !workers_[worker].view.serving;
  }

  void AskModel(size_t worker, const std::function<void()>& then) {
    client::CallOptions options;
    options.deadline = SteadyNow() + kAnswerTimeout;
    calls_[worker]->GetModel(
        options, [this, worker, then](const absl::StatusOr<folio::v1::GetModelResponse>& model) {
          if (model.ok()) SetModel(worker, *model);
          SetServing(worker, model.ok(), std::string(model.status().message()));
          then();
        });
  }

  void SetModel(size_t worker, const folio::v1::GetModelResponse& model) {
    const absl::MutexLock lock(&mutex_);
    WorkerView& view = workers_[worker].view;
    view.model = model.layout().model();
    view.context_length = model.context_length();
    view.layers = model.layout().num_layers();
    view.page_tokens = model.layout().page_tokens();
    if (view.since == 0) view.since = absl::ToUnixSeconds(absl::Now());
  }

  void SetServing(size_t worker, bool serving, const std::string& why) {
    std::string address;
    {
      const absl::MutexLock lock(&mutex_);
      Worker& one = workers_[worker];
      const bool first = !std::exchange(one.asked, true);
      const bool news = first || one.view.serving != serving;
      one.view.serving = serving;
      one.why = serving ? "" : why;
      if (!news) return;
      address = one.view.address;
    }
    if (serving) {
      log::Info("worker serves", {{"worker", address}});
    } else {
      log::Warning("worker does not serve", {{"worker", address}, {"reason", why}});
    }
  }

  WorkerSetOptions options_;  // constant after Connect, and so are the next two
  std::unique_ptr<client::Streams> streams_;
  std::vector<std::unique_ptr<client::WorkerCalls>> calls_;
  mutable absl::Mutex mutex_;
  SteadyCondVar changed_;
  std::vector<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  uint64_t turn_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

WorkerSet::Lease::Lease(WorkerSet* set, size_t worker, uint32_t requests)
    : set_(set), worker_(worker), requests_(requests) {}
WorkerSet::Lease::Lease(Lease&& other) noexcept
    : set_(std::exchange(other.set_, nullptr)),
      worker_(other.worker_),
      requests_(other.requests_) {}
WorkerSet::Lease::~Lease() {
  if (set_ != nullptr) set_->state_->Return(worker_, requests_);
}

WorkerSet::WorkerSet(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerSet::~WorkerSet() { state_->End(); }

absl::StatusOr<std::unique_ptr<WorkerSet>> WorkerSet::Connect(const WorkerSetOptions& options) {
  auto state = std::make_unique<State>();
  if (absl::Status status = state->Connect(options); !status.ok()) return status;
  state->AskAll();
  state->StartWatching();
  return std::unique_ptr<WorkerSet>(new WorkerSet(std::move(state)));
}

absl::StatusOr<WorkerSet::Lease> WorkerSet::Choose(absl::string_view model, absl::string_view key,
                                                   uint32_t requests) {
  const auto worker = state_->Choose(model, key, requests);
  if (!worker.ok()) return worker.status();
  return Lease(this, *worker, requests);
}

void WorkerSet::AwaitAll() { state_->AwaitAll(); }

void WorkerSet::NoteLoss(size_t worker) { state_->NoteLoss(worker); }

bool WorkerSet::serving() const {
  const std::vector<WorkerView> views = View();
  return std::any_of(views.begin(), views.end(), [](const auto& view) { return view.serving; });
}

std::vector<WorkerView> WorkerSet::View() const { return state_->View(); }

std::vector<std::string> WorkerSet::ModelNames(const WorkerView& worker) const {
  const std::vector<std::string>& aliases = state_->options().aliases;
  return aliases.empty() ? std::vector<std::string>{worker.model} : aliases;
}

std::string WorkerSet::ModelName(size_t worker) const { return ModelNames(View()[worker]).front(); }

std::string WorkerSet::Address(size_t worker) const { return View()[worker].address; }

client::Streams& WorkerSet::streams() { return state_->streams(); }
client::WorkerCalls& WorkerSet::calls(size_t worker) { return state_->calls(worker); }

}  // namespace folio::gateway
