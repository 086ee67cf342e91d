#include "tests/manager/manager_harness.h"

#include <utility>

#include "absl/time/clock.h"
#include "services/base/check.h"
#include "services/grpc/grpc_status.h"
#include "services/runtime/listen_address.h"

namespace folio::testing {

v1::ModelLayout SmallLayout() {
  v1::ModelLayout layout;
  layout.set_model("small");
  layout.set_fingerprint("00ff");
  layout.set_num_layers(2);
  layout.set_num_kv_heads(1);
  layout.set_head_dim(8);
  layout.set_page_tokens(16);
  layout.set_data_type(v1::DATA_TYPE_BFLOAT16);
  return layout;
}

v1::OpenSequence SmallOpen(uint32_t prompt, uint32_t max_new, uint32_t budget) {
  v1::OpenSequence open;
  for (uint32_t i = 0; i < prompt; ++i) open.add_prompt_tokens(i);
  open.set_max_new_tokens(max_new);
  if (budget != 0) {
    open.mutable_cache()->mutable_policy()->mutable_paged_eviction();
    open.mutable_cache()->set_budget_tokens(budget);
  }
  return open;
}

bool Eventually(const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!done()) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

bool WaitUntilServing(const std::string& address) {
  // A channel of its own each time: a refused one backs off for longer than we want to wait.
  return Eventually([&] {
    auto stub =
        v1::Admin::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(1)));
    v1::ListPoolsResponse response;
    return stub->ListPools(&context, {}, &response).ok();
  });
}

TestWorker::TestWorker(const std::string& manager_address)
    : stub_(v1::KvManager::NewStub(
          grpc::CreateChannel(manager_address, grpc::InsecureChannelCredentials()))) {}

TestWorker::~TestWorker() {
  if (stream_ == nullptr) return;
  context_->TryCancel();
  (void)stream_->Finish();
}

void TestWorker::Follows(const v1::AttachResponse& previous) {
  previous_.emplace();
  previous_->set_worker_id(previous.worker_id());
  previous_->set_session_token(previous.session_token());
}

absl::StatusOr<v1::AttachResponse> TestWorker::Attach(const v1::ModelLayout& layout,
                                                      uint32_t protocol_version,
                                                      uint32_t newest_protocol_version) {
  v1::AttachRequest request;
  request.set_protocol_version(protocol_version);
  request.set_newest_protocol_version(newest_protocol_version);
  request.set_worker_name("test-worker");
  *request.mutable_layout() = layout;
  request.set_device(device_);
  if (previous_.has_value()) *request.mutable_previous_session() = *previous_;
  grpc::ClientContext context;
  absl::Status status = FromGrpcStatus(stub_->Attach(&context, request, &attached_));
  if (!status.ok()) return status;
  return attached_;
}

absl::StatusOr<v1::DescribePoolResponse> TestWorker::DescribePool() {
  v1::DescribePoolResponse response;
  grpc::ClientContext context;
  absl::Status status = FromGrpcStatus(stub_->DescribePool(&context, {}, &response));
  if (!status.ok()) return status;
  return response;
}

absl::Status TestWorker::Fetch() {
  auto fetched = FetchPoolDescriptors(attached_.export_socket(), attached_.export_token());
  if (!fetched.ok()) return fetched.status();
  descriptors_ = *std::move(fetched);
  return absl::OkStatus();
}

TestWorker::Stream& TestWorker::stream() {
  if (stream_ == nullptr) {
    context_ = std::make_unique<grpc::ClientContext>();
    // No test of ours takes as long; one that hangs should say where.
    context_->set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
    stream_ = stub_->Session(context_.get());
  }
  return *stream_;
}

absl::Status TestWorker::Begin() {
  v1::SessionRequest hello;
  hello.mutable_hello()->set_worker_id(attached_.worker_id());
  hello.mutable_hello()->set_session_token(attached_.session_token());
  return Call(hello).status();
}

void TestWorker::Join() {
  FOLIO_CHECK(Attach().ok());
  FOLIO_CHECK(Fetch().ok());
  FOLIO_CHECK(Begin().ok());
}

absl::StatusOr<v1::SessionReply> TestWorker::Call(v1::SessionRequest request) {
  request.set_step(NextStep());
  return CallRaw(request);
}

absl::StatusOr<v1::SessionReply> TestWorker::Commit(const v1::OpenResult& opened, uint32_t length,
                                                    uint32_t sampled) {
  v1::SessionRequest request;
  v1::CommitTokens* commit = request.add_commit();
  commit->set_sequence_id(opened.sequence_id());
  commit->set_lease_epoch(opened.lease_epoch());
  commit->set_logical_length(length);
  for (uint32_t i = 0; i < sampled; ++i) commit->add_sampled_tokens(7);
  return Call(request);
}

absl::StatusOr<v1::SessionReply> TestWorker::CallRaw(const v1::SessionRequest& request) {
  v1::SessionReply reply;
  if (stream().Write(request) && stream().Read(&reply)) {
    FOLIO_CHECK(reply.step() == request.step());
    return reply;
  }
  const absl::Status status = FromGrpcStatus(stream().Finish());
  stream_.reset();
  return status.ok() ? absl::UnavailableError("the session ended") : status;
}

absl::StatusOr<v1::OpenResult> TestWorker::Open(const v1::OpenSequence& open) {
  v1::SessionRequest request;
  *request.add_open() = open;
  auto reply = Call(request);
  if (!reply.ok()) return reply.status();
  FOLIO_CHECK(reply->opened_size() == 1);
  const v1::OpenResult& result = reply->opened(0);
  if (result.code() == 0) return result;
  return absl::Status(static_cast<absl::StatusCode>(result.code()), result.message());
}

absl::StatusOr<v1::ClaimResult> TestWorker::Claim(uint64_t sequence, const std::string& token) {
  v1::SessionRequest request;
  request.add_claim()->set_request_tag(77);
  request.mutable_claim(0)->set_sequence_id(sequence);
  request.mutable_claim(0)->set_resume_token(token);
  auto reply = Call(request);
  if (!reply.ok()) return reply.status();
  FOLIO_CHECK(reply->claimed_size() == 1 && reply->claimed(0).request_tag() == 77);
  const v1::ClaimResult& result = reply->claimed(0);
  if (result.code() == 0) return result;
  return absl::Status(static_cast<absl::StatusCode>(result.code()), result.message());
}

absl::Status TestWorker::End() {
  stream().WritesDone();
  return Finish();
}

absl::Status TestWorker::Finish() {
  absl::Status status = FromGrpcStatus(stream().Finish());
  stream_.reset();
  return status;
}

ManagerHarness::ManagerHarness(const HarnessOptions& options) {
  manager::ServerOptions server;
  server.listen = {*ParseListenAddress(address())};
  server.export_socket = export_socket();
  server.pages = &memory_;
  server.pool_size = {.bytes = options.pool_bytes};
  server.rules.lease_ttl = options.lease_ttl;
  server.rules.orphan_ttl = options.orphan_ttl;
  server.kill_fenced_after = options.kill_fenced_after;
  server.clock = options.clock != nullptr ? options.clock : &real_clock_;
  auto started = manager::Server::Start(server);
  FOLIO_CHECK(started.ok());
  server_ = *std::move(started);
  admin_ = v1::Admin::NewStub(grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
}

v1::Pool ManagerHarness::PoolState() {
  grpc::ClientContext context;
  v1::ListPoolsResponse response;
  FOLIO_CHECK(admin_->ListPools(&context, {}, &response).ok());
  FOLIO_CHECK(response.pools_size() == 1);
  return response.pools(0);
}

v1::GetSequenceResponse ManagerHarness::SequenceState(uint64_t id) {
  grpc::ClientContext context;
  v1::GetSequenceRequest request;
  request.set_sequence_id(id);
  v1::GetSequenceResponse response;
  FOLIO_CHECK(admin_->GetSequence(&context, request, &response).ok());
  return response;
}

pid_t PidOf(const manager::WorkerRegistry& registry, WorkerId worker) {
  for (const manager::WorkerReport& report : registry.Workers()) {
    if (report.id == worker) return report.ranks[0].pid;
  }
  return 0;
}

std::string Show(const v1::Pool& pool) { return pool.ShortDebugString(); }

}  // namespace folio::testing
