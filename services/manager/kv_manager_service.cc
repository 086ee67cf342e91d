#include "services/manager/kv_manager_service.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "services/common/grpc_status.h"
#include "services/manager/session_translator.h"

namespace folio::manager {

grpc::Status KvManagerService::Attach(grpc::ServerContext* context,
                                      const v1::AttachRequest* request,
                                      v1::AttachResponse* response) {
  auto attached = roster_->Attach(*request);
  if (!attached.ok()) return ToGrpcStatus(attached.status());
  *response = *std::move(attached);
  return grpc::Status::OK;
}

grpc::Status KvManagerService::Session(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::SessionReply, v1::SessionRequest>* stream) {
  v1::SessionRequest request;
  if (!stream->Read(&request) || !request.has_hello()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "hello: the first request of a session must carry it"};
  }
  auto worker = roster_->BeginSession(request.hello(), [context] { context->TryCancel(); });
  if (!worker.ok()) return ToGrpcStatus(worker.status());
  const absl::Cleanup end = [this, &worker] { roster_->EndSession(*worker); };

  const Pool& pool = *roster_->pool();
  const CacheRules rules = {pool.geometry().page_tokens, pool.geometry().num_layers, budgets_};
  SessionTranslator translator(pool.coordinator(), *worker, rules,
                               [this] { return roster_->MayOpen(); });
  do {
    auto reply = translator.Translate(request);
    if (!reply.ok()) return ToGrpcStatus(reply.status());
    if (!stream->Write(*reply)) break;
  } while (stream->Read(&request));
  return grpc::Status::OK;
}

}  // namespace folio::manager
