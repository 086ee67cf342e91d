// Worker and manager over their real sockets, in one process.
#include "services/worker/serving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/clock.h"
#include "services/cache/inspector.h"
#include "services/grpc/grpc_server.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/server.h"
#include "services/worker/rpc/inference_service.h"
#include "tests/testing/scratch_directory.h"
#include "tests/worker/engine_harness.h"

namespace folio::worker::testing {
namespace {

using ::testing::HasSubstr;

class ServingTest : public ::testing::Test {
 protected:
  void StartManager(absl::Duration lease_ttl = absl::Seconds(5)) {
    manager::ServerOptions options;
    options.listen = {*ParseListenAddress("unix:" + scratch_.File("m.sock"))};
    options.export_socket = scratch_.File("e.sock");
    options.pages = &memory_;
    options.pool_size = {.bytes = 4 << 20};
    options.rules.lease_ttl = lease_ttl;
    options.clock = &clock_;
    auto started = manager::Server::Start(options);
    ASSERT_TRUE(started.ok()) << started.status();
    manager_ = *std::move(started);
  }

  ServingOptions Options() const {
    ServingOptions options;
    options.manager = "unix:" + scratch_.File("m.sock");
    options.worker_name = "test";
    options.attach_timeout = absl::Seconds(20);
    options.token_budget.alone = 64;
    options.max_batch = 8;
    return options;
  }

  std::shared_ptr<Submission> Push(SequenceRequest request, Recorder* recorder) {
    auto submission = std::make_shared<Submission>();
    submission->request = std::move(request);
    submission->request.arrival = SteadyNow();
    submission->sink = recorder;
    const SteadyTime deadline = SteadyNow() + absl::Seconds(20);
    absl::Status pushed = queue_.Push(submission);
    while (!pushed.ok() && SteadyNow() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
      pushed = queue_.Push(submission);
    }
    EXPECT_TRUE(pushed.ok()) << pushed;
    return submission;
  }

  static bool Never() { return false; }

  folio::testing::ScratchDirectory scratch_;
  RealClock clock_;
  manager::HostMemory memory_;
  std::unique_ptr<manager::Server> manager_;
  RequestQueue queue_;
};

// The same tokens over sockets and shared memory as in one process.
TEST_F(ServingTest, AnswersAsInProcess) {
  StartManager();
  Serving serving(Options(), &TinyLoadedModel(), &queue_);
  ASSERT_TRUE(serving.Start(Never).ok());
  EngineHarness harness;
  harness.Start();
  for (const std::string policy : {kFull, kPaged, kStreaming}) {
    const Ask ask = {.prompt = 120,
                     .seed = 6,
                     .max_new_tokens = 80,
                     .policy = policy,
                     .budget = policy == kFull ? 0u : 64u,
                     .temperature = 0.8f};
    Recorder recorder;
    Push(Make(ask), &recorder);
    ASSERT_TRUE(recorder.Wait());
    ASSERT_TRUE(recorder.status.ok()) << recorder.status;
    const auto expected = harness.Run(Make(ask));
    EXPECT_EQ(recorder.tokens, expected->tokens);
    EXPECT_EQ(recorder.logprobs, expected->logprobs);
    EXPECT_EQ(recorder.evictions, expected->evictions);
  }
  serving.Drain(SteadyNow() + absl::Seconds(5));
  EXPECT_EQ(serving.Wait(absl::Seconds(10)), absl::OkStatus());
}

TEST_F(ServingTest, WaitsForTheManager) {
  Serving serving(Options(), &TinyLoadedModel(), &queue_);
  std::thread late([this] {
    absl::SleepFor(absl::Milliseconds(400));
    StartManager();
  });
  EXPECT_TRUE(serving.Start(Never).ok());
  late.join();
  Recorder recorder;
  Push(Make({}), &recorder);
  ASSERT_TRUE(recorder.Wait());
  EXPECT_TRUE(recorder.status.ok()) << recorder.status;
}

TEST_F(ServingTest, GivesUpAfterTheTimeout) {
  ServingOptions options = Options();
  options.attach_timeout = absl::Milliseconds(300);
  Serving serving(options, &TinyLoadedModel(), &queue_);
  const absl::Status status = serving.Start(Never);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("could not be reached within 300ms"));
}

// A manager that ends takes its pool along; the worker gets a new one from its successor.
TEST_F(ServingTest, AttachesAnewToANewManager) {
  StartManager();
  Serving serving(Options(), &TinyLoadedModel(), &queue_);
  ASSERT_TRUE(serving.Start(Never).ok());
  Recorder before, cut, after;
  const Ask ask = {.prompt = 100, .seed = 3, .max_new_tokens = 60, .policy = kPaged, .budget = 64};
  Push(Make(ask), &before);
  ASSERT_TRUE(before.Wait());
  Push(Make({.prompt = 10, .max_new_tokens = 2000}), &cut);
  ASSERT_TRUE(cut.WaitForTokens(2));
  manager_.reset();
  ASSERT_TRUE(cut.Wait());
  EXPECT_TRUE(absl::IsUnavailable(cut.status)) << cut.status;
  StartManager();
  Push(Make(ask), &after);
  ASSERT_TRUE(after.Wait());
  ASSERT_TRUE(after.status.ok()) << after.status;
  EXPECT_EQ(after.tokens, before.tokens);
  EXPECT_EQ(after.evictions, before.evictions);
}

// How often `flag` is set on the mappings of the pool in this process; -1 where the kernel does not
// tell.
int PoolMappingsWith(const std::string& flag) {
  std::ifstream maps("/proc/self/smaps");
  int count = 0;
  bool pool = false, told = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) pool = line.find("memfd:folio-pool") != std::string::npos;
    if (line.rfind("VmFlags:", 0) != 0) continue;
    told = true;
    if (pool && line.find(" " + flag) != std::string::npos) ++count;
  }
  return told ? count : -1;
}

// The worker touches the pages first, so that it must ask as well.
TEST_F(ServingTest, AsksForHugePages) {
  StartManager();
  const int before = PoolMappingsWith("hg");
  Serving serving(Options(), &TinyLoadedModel(), &queue_);
  ASSERT_TRUE(serving.Start(Never).ok());
  if (before < 0) GTEST_SKIP() << "this kernel does not tell the flags of mappings";
  const manager::HugePages kind = manager_->registry().pool()->memory().huge_pages();
  if (kind == manager::HugePages::kReserved)
    GTEST_SKIP() << "nothing to ask for: they are reserved";
  const int of_manager = kind == manager::HugePages::kTransparent ? 1 : 0;
  EXPECT_EQ(PoolMappingsWith("hg"), before + of_manager + 1);
}

// The lease of an idle worker is kept alive by the link, not by the step loop.
TEST_F(ServingTest, HeartbeatsKeepTheLease) {
  StartManager(absl::Milliseconds(300));
  Serving serving(Options(), &TinyLoadedModel(), &queue_);
  ASSERT_TRUE(serving.Start(Never).ok());
  Recorder first, second;
  Push(Make({}), &first);
  ASSERT_TRUE(first.Wait());
  absl::SleepFor(absl::Milliseconds(1200));
  // They also tell how far the steps are.
  const cache::PoolInfo pool = cache::Inspector(manager_->registry().pool()->coordinator()).pool();
  EXPECT_GT(serving.gauge().progress().steps_done, 0U);
  EXPECT_EQ(pool.workers.at(0).progress, serving.gauge().progress());
  auto submission = std::make_shared<Submission>();
  submission->request = Make({});
  submission->sink = &second;
  ASSERT_TRUE(queue_.Push(submission).ok());  // no second try: it has served all along
  ASSERT_TRUE(second.Wait());
  EXPECT_TRUE(second.status.ok()) << second.status;
}

// Through the RPC edge: events, refusals, cancellation.
TEST_F(ServingTest, ServesInference) {
  StartManager();
  Serving serving(Options(), &TinyLoadedModel(), &queue_);
  ASSERT_TRUE(serving.Start(Never).ok());
  InferenceService service(TinyLimits(), TinyLoadedModel().description(), &queue_);
  GrpcServerOptions options;
  options.listen = {*ParseListenAddress("unix:" + scratch_.File("w.sock"))};
  options.services = {&service};
  auto server = GrpcServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel("unix:" + scratch_.File("w.sock"), grpc::InsecureChannelCredentials()));

  v1::GenerateRequest request;
  request.mutable_input()->set_text("the end of the story");
  request.set_max_tokens(20);
  request.set_ignore_eos(true);
  request.set_logprobs(3);
  v1::GenerateResponse event;
  v1::ScoreRequest score;
  *score.mutable_input() = request.input();
  std::vector<float> logprobs;
  {
    Recorder none;
    Push(Make({}), &none);  // serving by now
    ASSERT_TRUE(none.Wait());
    grpc::ClientContext context;
    auto stream = stub->Generate(&context, request);
    bool started = false, finished = false;
    while (stream->Read(&event)) {
      started |= event.has_started();
      finished = event.has_finished();
      for (const auto& logprob : event.chunk().logprobs()) {
        EXPECT_EQ(logprob.top_size(), 3);
        EXPECT_EQ(logprob.top(0).token(), logprob.token());  // greedy
        logprobs.push_back(logprob.logprob());
        score.mutable_continuation()->mutable_tokens()->add_ids(logprob.token());
      }
    }
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_TRUE(started && finished);
    EXPECT_EQ(logprobs.size(), 20u);
  }
  {
    grpc::ClientContext context;
    v1::ScoreResponse scored;
    ASSERT_TRUE(stub->Score(&context, score, &scored).ok());
    ASSERT_EQ(scored.tokens_size(), 20);
    for (int i = 0; i < 20; ++i) EXPECT_EQ(scored.tokens(i).logprob(), logprobs[i]);
    EXPECT_EQ(scored.usage().generated_tokens(), 20u);
  }
  {
    grpc::ClientContext context;
    request.mutable_sampling()->set_top_p(2);
    auto stream = stub->Generate(&context, request);
    EXPECT_FALSE(stream->Read(&event));
    const grpc::Status status = stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("sampling.top_p"));
    request.clear_sampling();
  }
  {
    grpc::ClientContext context;
    request.set_max_tokens(1900);
    auto stream = stub->Generate(&context, request);
    EXPECT_TRUE(stream->Read(&event));
    context.TryCancel();
    while (stream->Read(&event)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    auto stream = stub->Generate(&context, request);
    while (stream->Read(&event)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  {
    grpc::ClientContext context;
    v1::TokenizeRequest tokenize;
    tokenize.mutable_input()->set_text("the <|im_end|>");
    v1::TokenizeResponse tokens;
    ASSERT_TRUE(stub->Tokenize(&context, tokenize, &tokens).ok());
    std::string joined;
    for (const std::string& piece : tokens.pieces()) joined += piece;
    EXPECT_EQ(joined, "the <|im_end|>");
    v1::DetokenizeRequest back;
    *back.mutable_ids() = tokens.ids();
    back.set_skip_special(true);
    v1::DetokenizeResponse text;
    grpc::ClientContext second;
    ASSERT_TRUE(stub->Detokenize(&second, back, &text).ok());
    EXPECT_EQ(text.text(), "the ");
  }
}

}  // namespace
}  // namespace folio::worker::testing
