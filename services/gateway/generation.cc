#include "services/gateway/generation.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/time/clock.h"
#include "services/gateway/openai/ids.h"
#include "services/gateway/openai/logprobs.h"
#include "services/runtime/logging.h"

namespace folio::gateway {

// Keeps the generation until its choice has ended.
class Generation::Listener : public client::StreamListener {
 public:
  Listener(std::shared_ptr<Generation> generation, size_t index)
      : generation_(std::move(generation)), index_(index) {}

  void OnEvent(const v1::GenerateResponse& event, SteadyTime) override {
    generation_->OnEvent(index_, event);
  }
  void OnResumed(size_t lost) override { generation_->OnResumed(lost); }
  void OnReplayed() override { generation_->OnReplayed(); }
  // The generation may end with its last listener.
  void OnEnd(const absl::Status& status) override {
    const std::shared_ptr<Generation> generation = std::move(generation_);
    generation->OnEnd(index_, status);
  }

 private:
  std::shared_ptr<Generation> generation_;
  const size_t index_;
};

Generation::Generation(WorkerSet* workers, GatewayMetrics* metrics,
                       std::unique_ptr<ApiRequest> request, Call call, WorkerSet::Lease lease,
                       std::function<void(Generation*)> ended)
    : workers_(workers),
      metrics_(metrics),
      call_(std::move(call)),
      lease_(std::move(lease)),
      ended_(std::move(ended)),
      request_(std::move(request)),
      writer_(call_, NewId(call_.chat ? "chatcmpl-" : "cmpl-"), absl::ToUnixSeconds(absl::Now()),
              call_.model),
      running_(call_.choices.size()),
      left_(call_.choices.size()) {}

Generation::~Generation() = default;

void Generation::Start(absl::Duration resume, bool replay) {
  const auto self = shared_from_this();
  if (call_.tools == ToolParsing::kAny) {
    const absl::MutexLock lock(&mutex_);
    for (Running& running : running_) running.tools.ExpectCall();
  }
  client::CallOptions options;
  options.cancellation = cancellation_;
  options.resume = resume;
  options.replay = replay;
  {
    const absl::MutexLock lock(&mutex_);
    options.metadata.emplace_back("x-request-id", request_->record.request_id);
    request_->trace().AddTo(&options.metadata);
    // Its own thread may be the one that calls.
    request_->exchange().Watch([cancellation = cancellation_] { cancellation.Cancel(); },
                               [gate = gate_, metrics = metrics_](bool behind) {
                                 if (behind) metrics->OnPaused();
                                 behind ? gate.Close() : gate.Open();
                               });
  }
  for (size_t i = 0; i < call_.choices.size(); ++i) {
    listeners_.push_back(std::make_unique<Listener>(self, i));
  }
  for (size_t i = 0; i < call_.choices.size(); ++i) {
    workers_->streams().Start(call_.choices[i], lease_.worker(), listeners_[i].get(), options,
                              gate_);
  }
}

void Generation::Cancel(const absl::Status& why) {
  {
    const absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = why;
  }
  cancellation_.Cancel();
}

void Generation::OnEvent(size_t index, const v1::GenerateResponse& event) {
  const absl::MutexLock lock(&mutex_);
  switch (event.event_case()) {
    case v1::GenerateResponse::kStarted:
      return OnStarted(index, event.started());
    case v1::GenerateResponse::kChunk:
      return OnChunk(index, event.chunk());
    case v1::GenerateResponse::kEviction:
      return OnEviction(index, event.eviction());
    case v1::GenerateResponse::kFinished:
      return OnFinished(index, event.finished());
    default:
      return;
  }
}

void Generation::OnResumed(size_t lost) {
  metrics_->OnResumed();
  workers_->NoteLoss(lost);
  const absl::MutexLock lock(&mutex_);
  ++request_->record.resumed;
}

void Generation::OnReplayed() {
  metrics_->OnReplayed();
  const absl::MutexLock lock(&mutex_);
  ++request_->record.replayed;
}

const TokenUsage* Generation::EachUsage() const {
  return call_.continuous_usage ? &usage_ : nullptr;
}

void Generation::Send(const std::string& events) {
  if (std::exchange(begun_, true)) {
    request_->Write(events);
  } else {
    request_->Begin(events);
  }
}

void Generation::OnStarted(size_t index, const v1::Started& started) {
  running_[index].choice.started = started;
  // Choices of one prompt share it.
  if (index % call_.per_prompt == 0) usage_.prompt += started.prompt_tokens();
  if (call_.report_kept) {
    const WorkerView worker = workers_->View()[lease_.worker()];
    running_[index].kept.emplace(worker.layers, worker.page_tokens, started.prompt_tokens());
  }
  if (!call_.stream || !failure_.ok()) return;
  std::string events;
  if (call_.chat) writer_.AppendRole(static_cast<int>(index), EachUsage(), &events);
  if (!events.empty() || !begun_) Send(events);
}

void Generation::OnChunk(size_t index, const v1::TokenChunk& chunk) {
  if (!request_->record.first_token.has_value()) request_->record.first_token = request_->age();
  usage_.completion += static_cast<uint64_t>(chunk.tokens_size());
  Running& running = running_[index];
  if (call_.tools == ToolParsing::kNone && call_.stream) {
    return SendText(index, chunk.text(), PointersTo(chunk.logprobs()));
  }
  // Text that may be part of a tool call waits, and so do its tokens' logprobs.
  auto& logprobs = call_.stream ? running.unsent : running.choice.logprobs;
  logprobs.insert(logprobs.end(), chunk.logprobs().begin(), chunk.logprobs().end());
  switch (call_.tools) {
    case ToolParsing::kNone:
      return SendText(index, chunk.text(), {});
    case ToolParsing::kTagged:
    case ToolParsing::kAny:
      return TakeFound(index, running.tools.Feed(chunk.text()));
    case ToolParsing::kForced:
      return SendForced(index, chunk.text());
  }
}

void Generation::SendText(size_t index, absl::string_view text, Logprobs logprobs) {
  Running& running = running_[index];
  if (!call_.stream) {
    running.choice.text.append(text.data(), text.size());
    return;
  }
  // The token that ends the answer has no text.
  if (!failure_.ok() || (text.empty() && logprobs.empty())) return;
  std::string events;
  writer_.AppendText(static_cast<int>(index), text, logprobs, running.chars, EachUsage(), &events);
  if (call_.top_logprobs.has_value()) running.chars += CountChars(text);
  Send(events);
}

void Generation::TakeFound(size_t index, ToolCallReader::Found found) {
  Running& running = running_[index];
  // Line breaks between calls do not belong to the text.
  const bool blank = absl::StripAsciiWhitespace(found.text).empty();
  if (!blank || (running.tools.count() == 0 && !found.text.empty())) {
    SendText(index, found.text, PointersTo(running.unsent));
    running.unsent.clear();
  }
  for (ToolCall& call : found.calls) {
    if (!call_.parallel_tools && !running.choice.tool_calls.empty()) return;
    const ToolCallPiece piece = {.index = running.choice.tool_calls.size(),
                                 .id = call.id,
                                 .name = call.name,
                                 .arguments = call.arguments};
    running.choice.tool_calls.push_back(std::move(call));
    if (call_.stream && failure_.ok()) SendCall(index, piece);
  }
}

void Generation::SendCall(size_t index, const ToolCallPiece& piece) {
  Running& running = running_[index];
  std::string events;
  writer_.AppendToolCall(static_cast<int>(index), piece, PointersTo(running.unsent), EachUsage(),
                         &events);
  running.unsent.clear();
  Send(events);
}

void Generation::SendForced(size_t index, absl::string_view arguments) {
  Running& running = running_[index];
  auto& calls = running.choice.tool_calls;
  if (calls.empty()) calls.push_back({NewToolCallId(), call_.forced_tool, ""});
  if (!call_.stream) {
    calls.front().arguments.append(arguments.data(), arguments.size());
    return;
  }
  if (!failure_.ok() || arguments.empty()) return;
  ToolCallPiece piece;
  piece.arguments = std::string(arguments);
  if (!std::exchange(running.named, true)) {
    piece.id = calls.front().id;
    piece.name = calls.front().name;
  }
  SendCall(index, piece);
}

void Generation::OnEviction(size_t index, const v1::EvictionEvent& event) {
  std::optional<client::KeptPositions>& kept = running_[index].kept;
  if (!kept.has_value()) return;
  if (const absl::Status status = kept->Apply(event); !status.ok()) {
    log::Warning("kept positions are not known", {{"reason", status}});
    kept.reset();
  }
}

void Generation::OnFinished(size_t index, const v1::Finished& finished) {
  Running& running = running_[index];
  running.choice.finished = finished;
  if (running.kept.has_value()) {
    running.kept->Extend(client::LengthAtEnd(finished.usage()));
    running.choice.kept = running.kept->layers();
  }
  if (call_.tools == ToolParsing::kTagged || call_.tools == ToolParsing::kAny)
    TakeFound(index, running.tools.Finish());
  if (!call_.stream || !failure_.ok()) return;
  std::string events;
  writer_.AppendFinish(static_cast<int>(index), running.choice, PointersTo(running.unsent),
                       EachUsage(), &events);
  Send(events);
}

void Generation::OnEnd(size_t index, const absl::Status& status) {
  bool cancel = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (!status.ok() && failure_.ok()) {
      failure_ = status;
      cancel = left_ > 1;
    }
    if (--left_ == 0) Answer();
  }
  // Without one choice the answer is of no use.
  if (cancel) cancellation_.Cancel();
}

void Generation::Answer() {
  request_->record.prompt_tokens = usage_.prompt;
  request_->record.generated_tokens = usage_.completion;
  if (absl::IsCancelled(failure_)) {
    // Only a client that has left cancels without a reason. If it has not, it gets the error.
    request_->record.reason = "the client left";
    request_->Leave();
  }
  if (!begun_) {
    if (!failure_.ok()) {
      request_->Fail(failure_);
    } else if (!call_.stream) {
      std::vector<Choice> choices;
      choices.reserve(running_.size());
      for (Running& running : running_) choices.push_back(std::move(running.choice));
      request_->Reply(200, writer_.Whole(choices, usage_));
    }
  } else {
    std::string events;
    if (!failure_.ok()) {
      AnswerWriter::AppendError(ErrorBody(ErrorOf(failure_)), &events);
    } else if (call_.include_usage) {
      writer_.AppendUsage(usage_, &events);
    }
    AnswerWriter::AppendDone(&events);
    request_->Write(events);
    request_->End(failure_.ok() ? "" : failure_.message());
  }
  ended_(this);
}

}  // namespace folio::gateway
