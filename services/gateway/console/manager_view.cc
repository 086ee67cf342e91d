#include "services/gateway/console/manager_view.h"

#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/base/invalid_argument.h"
#include "services/base/steady_time.h"
#include "services/client/message_json.h"

namespace folio::gateway {
namespace {

constexpr size_t kMostQuestions = 64;
constexpr size_t kMostEvents = 1000;
constexpr absl::Duration kTimeout = absl::Seconds(3);

client::CallOptions InTime() {
  client::CallOptions options;
  options.deadline = SteadyNow() + kTimeout;
  return options;
}

// The value of a parameter of a query, or nothing. Numbers need no decoding.
absl::string_view Parameter(absl::string_view query, absl::string_view name) {
  for (const absl::string_view part : absl::StrSplit(query, '&')) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (words.size() == 2 && words[0] == name) return words[1];
  }
  return "";
}

absl::StatusOr<std::string> AsJson(const auto& message) {
  if (!message.ok()) return message.status();
  return client::MessageJson(*message);
}

v1::WatchEventsRequest AllKindsAfter(uint64_t number) {
  v1::WatchEventsRequest request;
  request.set_after(number);
  for (int kind = 1; kind <= v1::EventKind_MAX; ++kind) {
    request.add_kinds(static_cast<v1::EventKind>(kind));
  }
  return request;
}

}  // namespace

ManagerView::ManagerView(std::unique_ptr<client::AdminClient> client)
    : client_(std::move(client)), thread_([this] { Run(); }) {}

absl::StatusOr<std::unique_ptr<ManagerView>> ManagerView::Connect(absl::string_view address,
                                                                  client::ConnectOptions options) {
  options.check = false;
  auto client = client::AdminClient::Connect(address, options);
  if (!client.ok()) return client.status();
  return std::unique_ptr<ManagerView>(new ManagerView(*std::move(client)));
}

ManagerView::~ManagerView() { End(); }

void ManagerView::End() {
  std::deque<Question> left;
  {
    const absl::MutexLock lock(&mutex_);
    ending_ = true;
    left.swap(questions_);
  }
  if (thread_.joinable()) thread_.join();
  for (const Question& question : left) {
    question.answer(absl::UnavailableError("This gateway is shutting down."));
  }
}

void ManagerView::Ask(std::string question, std::string query, Answer answer) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!ending_ && questions_.size() < kMostQuestions) {
      questions_.push_back({std::move(question), std::move(query), std::move(answer)});
      return;
    }
  }
  answer(absl::UnavailableError(
      "This gateway is shutting down, or too many questions about the cache wait for answers."));
}

void ManagerView::Run() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ending_ || !questions_.empty();
  };
  for (;;) {
    Question question;
    {
      const absl::MutexLock lock(&mutex_, absl::Condition(&has_work));
      if (ending_) return;
      question = std::move(questions_.front());
      questions_.pop_front();
    }
    question.answer(Find(question));
  }
}

absl::StatusOr<std::string> ManagerView::Find(const Question& question) {
  const absl::string_view what = question.what;
  if (what == "manager") return AsJson(client_->GetManager(InTime()));
  if (what == "pools") return AsJson(client_->ListPools(InTime()));
  if (what == "sequences") return AsJson(client_->ListSequences(InTime()));
  if (what == "workers") return AsJson(client_->ListWorkers(InTime()));
  if (what == "tenants") return AsJson(client_->ListTenants(InTime()));
  if (what == "pages") return Pages(question.query);
  if (what == "events") return Events(question.query);
  absl::string_view id = what;
  uint64_t number = 0;
  if (absl::ConsumePrefix(&id, "sequences/") && absl::SimpleAtoi(id, &number)) {
    return AsJson(client_->GetSequence(number, InTime()));
  }
  return absl::NotFoundError(
      absl::StrCat("There is no state of that name; ask for manager, pools, "
                   "sequences, sequences/ID, workers, tenants, pages or "
                   "events."));
}

absl::StatusOr<std::string> ManagerView::Pages(const std::string& query) {
  v1::ListPagesRequest request;
  request.set_layers(Parameter(query, "layers") == "1");
  request.set_scores(Parameter(query, "scores") == "1");
  auto runs = client_->ListPages(request, InTime());
  if (!runs.ok()) return runs.status();
  v1::ListPagesResponse all;
  all.mutable_runs()->Assign(runs->begin(), runs->end());
  return client::MessageJson(all);
}

absl::StatusOr<std::string> ManagerView::Events(const std::string& query) {
  const absl::string_view text = Parameter(query, "after");
  uint64_t after = 0;
  if (!text.empty() && !absl::SimpleAtoi(text, &after)) {
    return InvalidArgument("after: must be the number of an event");
  }
  std::deque<std::string> events;
  uint64_t lost = 0;
  client::EventStream stream = client_->WatchEvents(AllKindsAfter(after), InTime());
  while (const auto next = stream.Next()) {
    if (!next->has_event()) {
      lost += next->lost().events();
      continue;
    }
    events.push_back(client::MessageJson(next->event()));
    if (events.size() <= kMostEvents) continue;
    events.pop_front();
    ++lost;
  }
  if (absl::Status status = stream.status(); !status.ok()) return status;
  std::string json = "{\"events\":[";
  for (const std::string& event : events) {
    absl::StrAppend(&json, json.back() == '[' ? "" : ",", event);
  }
  return absl::StrCat(json, "],\"lost_events\":\"", lost, "\"}");
}

}  // namespace folio::gateway
