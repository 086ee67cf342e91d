#include "services/manager/kv_manager_service.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "services/grpc/grpc_status.h"
#include "services/manager/session_translator.h"
#include "services/wire/session.h"

namespace folio::manager {
namespace {

// A worker that was fenced hears CANCELLED, whether the stream is cancelled first or its next
// request is refused, so that it knows that it may attach again.
grpc::Status EndOfSession(const absl::Status& why) {
  const bool fenced = absl::IsFailedPrecondition(why) || absl::IsNotFound(why);
  return ToGrpcStatus(fenced ? absl::CancelledError(why.message()) : why);
}

}  // namespace

grpc::Status KvManagerService::DescribePool(grpc::ServerContext* context,
                                            const v1::DescribePoolRequest* request,
                                            v1::DescribePoolResponse* response) {
  if (absl::Status s = gate_->AdmitLocal(*context, "DescribePool"); !s.ok()) return ToGrpcStatus(s);
  for (const DeviceState& device : pools_->pages().Devices()) {
    v1::PoolDevice* out = response->add_devices();
    out->set_uuid(device.uuid);
    out->set_name(device.name);
    for (const Rank rank : device.ranks) out->add_ranks(rank.value());
  }
  return grpc::Status::OK;
}

grpc::Status KvManagerService::Attach(grpc::ServerContext* context,
                                      const v1::AttachRequest* request,
                                      v1::AttachResponse* response) {
  if (absl::Status s = gate_->AdmitLocal(*context, "Attach"); !s.ok()) return ToGrpcStatus(s);
  auto attached = pools_->Attach(*request, context->peer());
  if (!attached.ok()) return ToGrpcStatus(attached.status());
  *response = *std::move(attached);
  return grpc::Status::OK;
}

bool KvManagerService::ReadHello(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream,
    v1::SessionRequest* request) {
  const HelloWatch::Waiting waiting(&hellos_,
                                    [context](const absl::Status& why) { EndCall(context, why); });
  return stream->Read(request) && request->has_hello();
}

grpc::Status KvManagerService::Session(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream) {
  if (absl::Status s = gate_->AdmitLocal(*context, "Session"); !s.ok()) return ToGrpcStatus(s);
  v1::SessionRequest request;
  if (!ReadHello(context, stream, &request)) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "hello: the first request of a session must carry it"};
  }
  auto session = pools_->BeginSession(request.hello(), [context] { context->TryCancel(); });
  if (!session.ok()) return ToGrpcStatus(session.status());
  ServedPool& home = *session->home;
  const WorkerId worker = session->begun.worker;
  const absl::Cleanup end = [&home, worker] { home.registry().EndSession(worker); };

  const Pool& pool = *session->begun.pool;
  const CacheRules rules = {pool.geometry().page_tokens, pool.geometry().num_layers, budgets_};
  SessionTranslator translator(
      pool.coordinator(), worker, rules,
      [&home, worker] { return home.registry().drains().MayOpen(worker); }, home.events());
  do {
    auto reply = translator.Translate(wire::FromProto(request));
    if (!reply.ok()) return EndOfSession(reply.status());
    home.Flush();
    if (!stream->Write(wire::ToProto(*reply)) || !stream->Read(&request)) break;
    if (request.has_hello()) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              "hello: only the first request of a session carries it"};
    }
  } while (true);
  return grpc::Status::OK;
}

}  // namespace folio::manager
