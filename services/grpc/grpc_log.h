// LogForGrpc has gRPC and Protobuf write into our log.
#ifndef FOLIO_SERVICES_GRPC_GRPC_LOG_H_
#define FOLIO_SERVICES_GRPC_GRPC_LOG_H_

namespace folio {

// Makes their messages lines of our log from now on. GrpcServer::Start does it too. Call it earlier
// if the program makes a channel before it starts a server. Idempotent.
void LogForGrpc();

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_GRPC_LOG_H_
