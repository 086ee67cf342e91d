// MakeServerCredentials gives gRPC the certificate of a server, which may change while it runs.
#ifndef FOLIO_SERVICES_GRPC_SERVER_CREDENTIALS_H_
#define FOLIO_SERVICES_GRPC_SERVER_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>

#include "services/runtime/certificate_files.h"

namespace folio {

// TLS 1.2 or 1.3 with the certificate that the files hold when a connection begins. Clients must
// show a certificate if there are authorities for them.
std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(
    std::shared_ptr<CertificateFiles> certificate);

}  // namespace folio

#endif  // FOLIO_SERVICES_GRPC_SERVER_CREDENTIALS_H_
