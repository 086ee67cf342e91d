#include "tests/manager/raw_grpc.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/grpc/grpc_status.h"

namespace folio::testing {
namespace {

// Sends one message and reads one, on any kind of method.
absl::StatusOr<std::string> Exchange(const std::string& address, const std::string& method,
                                     const std::string& request) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  const auto done = [&] { return queue.Next(&tag, &ok) && ok; };

  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call =
      stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  bool fine = done();
  const grpc::Slice bytes(request);
  if (fine) {
    call->WriteLast(grpc::ByteBuffer(&bytes, 1), {}, nullptr);
    fine = done();
  }
  grpc::ByteBuffer answer;
  if (fine) {
    call->Read(&answer, nullptr);
    fine = done();
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  done();
  if (!fine) return status.ok() ? absl::UnavailableError("no answer") : FromGrpcStatus(status);
  std::vector<grpc::Slice> slices;
  if (!answer.Dump(&slices).ok()) return absl::InternalError("cannot read the answer");
  std::string text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> Health(const std::string& address, const std::string& service) {
  // HealthCheckRequest { string service = 1; }, HealthCheckResponse { ServingStatus status = 1; }
  std::string request;
  if (!service.empty()) {
    request = absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  }
  auto answer = Exchange(address, "/grpc.health.v1.Health/Check", request);
  if (!answer.ok()) return answer.status();
  const int status = answer->size() == 2 && (*answer)[0] == 0x08 ? (*answer)[1] : 0;
  static constexpr const char* kNames[] = {"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"};
  return status >= 0 && status < 4 ? kNames[status] : "?";
}

absl::StatusOr<std::string> ReflectedServices(const std::string& address) {
  // ServerReflectionRequest { string list_services = 7; }
  return Exchange(address, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                  "\x3a\x01*");
}

}  // namespace folio::testing
