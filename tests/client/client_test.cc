#include "services/client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "services/client/admin_client.h"
#include "tests/client/scripted_server.h"

namespace folio::client {
namespace {

using ::folio::testing::AnswerEvents;
using ::folio::testing::ScriptedServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Client> ConnectTo(const ScriptedServer& server) {
  auto client = Client::Connect(server.address());
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

folio::v1::GenerateRequest Question() {
  folio::v1::GenerateRequest request;
  *request.mutable_input() = Ask("Why?");
  return request;
}

// Waits until the server's script saw `count` of something; false after ten seconds.
bool Reaches(const std::atomic<int>& value, int count) {
  for (int i = 0; i < 10000 && value < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return value >= count;
}

TEST(Connect, RefusesWhatIsNoAddress) {
  for (const auto& [address, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "empty"},
           {"unix:", "no socket"},
           {"/run/folio/worker.sock", "write unix:/run/folio/worker.sock"},
           {"localhost", "neither unix:/path nor host:port"},
           {":80", "neither"},
           {"localhost:", "neither"},
           {"localhost:0", "neither"},
           {"localhost:65536", "neither"},
           {"localhost:http", "neither"}}) {
    const auto client = Client::Connect(address);
    EXPECT_EQ(client.status().code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(client.status().message()), HasSubstr(words)) << address;
  }
}

TEST(Connect, SaysWhereAndWhyNothingAnswers) {
  const auto client = Client::Connect("unix:/tmp/folio-no-such-directory/socket");
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()),
              AllOf(HasSubstr("worker at \"unix:/tmp/folio-no-such-directory/socket\""),
                    HasSubstr("No such file")));
  const auto manager = AdminClient::Connect("127.0.0.1:1");
  EXPECT_EQ(manager.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(manager.status().message()),
              AllOf(HasSubstr("manager at \"127.0.0.1:1\""), HasSubstr("Connection refused")));
}

TEST(Connect, WaitsForAServerThatStillStarts) {
  ConnectOptions options;
  options.wait_for_server = true;
  options.timeout = absl::Milliseconds(300);
  const SteadyTime begin = SteadyNow();
  const auto never = Client::Connect("unix:/tmp/folio-no-such-directory/socket", options);
  EXPECT_EQ(never.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(never.status().message()), HasSubstr("no answer within 300ms"));
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(290));

  const ScriptedServer server;
  EXPECT_TRUE(Client::Connect(server.address(), options).ok());
}

TEST(Generate, PullsEventsInOrder) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"Be", "cause", "."});
  const auto client = ConnectTo(server);
  Generation generation = client->Start(Question());
  std::vector<folio::v1::GenerateResponse::EventCase> kinds;
  std::string text;
  while (const auto event = generation.Next()) {
    kinds.push_back(event->event_case());
    text += event->chunk().text();
  }
  using Event = folio::v1::GenerateResponse;
  EXPECT_THAT(kinds, ElementsAre(Event::kStarted, Event::kPrefill, Event::kChunk, Event::kChunk,
                                 Event::kChunk, Event::kFinished));
  EXPECT_EQ(text, "Because.");
  EXPECT_TRUE(generation.status().ok()) << generation.status();
  EXPECT_FALSE(generation.Next().has_value());
}

TEST(Generate, CompleteGathersEverything) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a", "b"});
  server.script.events.insert(server.script.events.begin() + 2, folio::v1::GenerateResponse());
  server.script.events[2].mutable_eviction()->set_step(-1);
  const auto client = ConnectTo(server);
  folio::v1::GenerateRequest request = Question();
  *request.mutable_cache() = PagedEviction(256);
  const auto result = client->Complete(request);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->text, "ab");
  EXPECT_THAT(result->tokens, ElementsAre(100, 101));
  EXPECT_EQ(result->logprobs.size(), 2);
  EXPECT_EQ(result->evictions.size(), 1);
  EXPECT_EQ(result->started.sequence_id(), 7);
  EXPECT_EQ(result->finished.reason(), folio::v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(server.generate_request().SerializeAsString(), request.SerializeAsString());
}

TEST(Generate, GivesTheServersCodeAndWords) {
  for (const auto code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::RESOURCE_EXHAUSTED,
        grpc::StatusCode::FAILED_PRECONDITION, grpc::StatusCode::NOT_FOUND,
        grpc::StatusCode::INTERNAL, grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::ABORTED}) {
    ScriptedServer server;
    server.script.status = grpc::Status(code, "budget_tokens: the server's words");
    const absl::Status status =
        ConnectTo(server)->Complete(Question(), {.cancellation = {}, .resume = {}}).status();
    EXPECT_EQ(static_cast<int>(status.code()), static_cast<int>(code));
    EXPECT_THAT(std::string(status.message()), HasSubstr("budget_tokens: the server's words"));
  }
}

TEST(Generate, AStreamWithoutAResultIsAnError) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a"});
  server.script.events.pop_back();
  const auto client = ConnectTo(server);
  const auto result = client->Complete(Question());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("without a result"));
}

TEST(Generate, CallbackStopsIt) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a", "b", "c"});
  server.script.hang = true;
  const auto client = ConnectTo(server);
  int events = 0;
  const absl::Status status = client->Generate(
      Question(), [&](const folio::v1::GenerateResponse&) { return ++events < 3; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(events, 3);
  EXPECT_TRUE(Reaches(server.script.cancelled, 1));
}

TEST(Generate, CancelsFromAnotherThread) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a"});
  server.script.events.pop_back();
  server.script.hang = true;
  const auto client = ConnectTo(server);
  Generation generation = client->Start(Question());
  std::thread other([&] {
    EXPECT_TRUE(Reaches(server.script.started, 1));
    generation.Cancel();
  });
  while (generation.Next().has_value()) {
  }
  other.join();
  EXPECT_EQ(generation.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Reaches(server.script.cancelled, 1));
}

TEST(Generate, DroppingItCancels) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a"});
  server.script.hang = true;
  const auto client = ConnectTo(server);
  {
    Generation generation = client->Start(Question());
    EXPECT_TRUE(generation.Next().has_value());
    // The one that is moved from lets go.
    const Generation moved = std::move(generation);
  }
  EXPECT_TRUE(Reaches(server.script.cancelled, 1));
}

TEST(Generate, OutlivesItsClient) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a"});
  auto client = ConnectTo(server);
  Generation generation = client->Start(Question());
  client.reset();
  while (generation.Next().has_value()) {
  }
  EXPECT_TRUE(generation.status().ok()) << generation.status();
}

TEST(Generate, EndsWhenTheServerGoes) {
  ScriptedServer server;
  server.script.events = AnswerEvents({"a"});
  server.script.hang = true;
  const auto client = ConnectTo(server);
  Generation generation = client->Start(Question());
  EXPECT_TRUE(generation.Next().has_value());
  server.Stop();
  while (generation.Next().has_value()) {
  }
  EXPECT_FALSE(generation.status().ok());
  const auto after = client->GetModel();
  EXPECT_EQ(after.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(after.status().message()), HasSubstr(server.address()));
}

TEST(Calls, DeadlineEndsThem) {
  ScriptedServer server;
  server.script.hang = true;
  const auto client = ConnectTo(server);
  CallOptions options;
  options.deadline = SteadyNow() + absl::Milliseconds(50);
  EXPECT_EQ(client->Score({}, options).status().code(), absl::StatusCode::kDeadlineExceeded);
  options.deadline = SteadyNow() + absl::Milliseconds(50);
  EXPECT_EQ(client->Complete(Question(), options).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Reaches(server.script.cancelled, 2));
}

TEST(Calls, CancellationEndsThoseThatRunAndThoseThatFollow) {
  ScriptedServer server;
  server.script.hang = true;
  const auto client = ConnectTo(server);
  const auto admin = AdminClient::Connect(server.address());
  ASSERT_TRUE(admin.ok());
  CallOptions options;
  std::thread other([&] {
    EXPECT_TRUE(Reaches(server.script.started, 3));
    options.cancellation.Cancel();
  });
  std::thread score(
      [&] { EXPECT_EQ(client->Score({}, options).status().code(), absl::StatusCode::kCancelled); });
  std::thread pools([&] {
    EXPECT_EQ((*admin)->ListPools(options).status().code(), absl::StatusCode::kCancelled);
  });
  EXPECT_EQ(client->Complete(Question(), options).status().code(), absl::StatusCode::kCancelled);
  for (std::thread* thread : {&other, &score, &pools}) thread->join();

  EXPECT_TRUE(options.cancellation.cancelled());
  EXPECT_EQ(client->GetModel(options).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(client->Complete(Question(), options).status().code(), absl::StatusCode::kCancelled);
}

TEST(Calls, UnaryAnswersArrive) {
  ScriptedServer server;
  server.script.model.set_architecture("llama");
  server.script.tokens.add_ids(19556);
  server.script.text = "Hello";
  server.script.score.add_tokens()->set_logprob(-1);
  server.script.pools.add_pools()->set_total_pages(9);
  server.script.sequences.add_sequences()->set_sequence_id(3);
  server.script.sequence.mutable_sequence()->set_sequence_id(3);
  const auto client = ConnectTo(server);
  EXPECT_EQ(client->GetModel()->architecture(), "llama");
  EXPECT_EQ(client->Tokenize(Text("Hello"))->ids(0), 19556);
  EXPECT_EQ(*client->Detokenize({19556}), "Hello");
  EXPECT_EQ(client->Score({})->tokens_size(), 1);
  const auto admin = AdminClient::Connect(server.address());
  ASSERT_TRUE(admin.ok());
  EXPECT_EQ((*admin)->ListPools()->pools(0).total_pages(), 9);
  EXPECT_EQ((*admin)->ListSequences()->sequences_size(), 1);
  EXPECT_EQ((*admin)->GetSequence(3)->sequence().sequence_id(), 3);
}

TEST(Calls, AnswersMayBeLargerThanGrpcsDefault) {
  ScriptedServer server;
  server.script.text = std::string(6 << 20, 'x');
  const auto client = ConnectTo(server);
  const auto text = client->Detokenize({1});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size(), 6 << 20);
}

TEST(Calls, HealthFollowsTheServer) {
  ScriptedServer server;
  const auto client = ConnectTo(server);
  server.SetServing(true);
  EXPECT_TRUE(*client->IsServing());
  server.SetServing(false);
  EXPECT_FALSE(*client->IsServing());
  // Still reachable: what it answers is what counts.
  EXPECT_TRUE(AdminClient::Connect(server.address()).ok());
}

TEST(Calls, StringsMustBeUtf8) {
  ScriptedServer server;
  const auto client = ConnectTo(server);
  folio::v1::GenerateRequest request = Question();
  request.add_stop("fine: \xC3\xA9");
  request.add_stop("a\xFF");
  const auto completion = client->Complete(request);
  EXPECT_EQ(completion.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(completion.status().message(), "stop[1] is not UTF-8 at byte 1");
  const auto tokens = client->Tokenize(Chat({{"user", "ok"}, {"user", "\xED\xA0\x80"}}));
  EXPECT_EQ(tokens.status().message(), "input.chat.messages[1].content is not UTF-8 at byte 0");
  folio::v1::ScoreRequest score;
  *score.mutable_continuation() = Text("\xC0\x80");
  EXPECT_EQ(client->Score(score).status().message(), "continuation.text is not UTF-8 at byte 0");
  EXPECT_EQ(server.script.started, 0);
}

TEST(Inputs, BuildTheMessages) {
  EXPECT_EQ(Text("a").text(), "a");
  EXPECT_EQ(Tokens({1, 2}).tokens().ids(1), 2);
  const auto ask = Ask("Why?", "Be brief.");
  ASSERT_EQ(ask.chat().messages_size(), 2);
  EXPECT_EQ(ask.chat().messages(0).role(), "system");
  EXPECT_EQ(ask.chat().messages(1).content(), "Why?");
  EXPECT_EQ(Ask("Why?").chat().messages_size(), 1);
  EXPECT_TRUE(FullCache().policy().has_full());
  EXPECT_TRUE(PagedEviction(256).policy().has_paged_eviction());
  EXPECT_TRUE(StreamingLlm(256).policy().has_streaming_llm());
  EXPECT_EQ(StreamingLlm(256).budget_tokens(), 256);
  EXPECT_FALSE(StreamingLlm(256).has_sink_tokens());
}

}  // namespace
}  // namespace folio::client
