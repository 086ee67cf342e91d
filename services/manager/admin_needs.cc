#include "services/manager/admin_needs.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>

#include "folio/v1/admin.pb.h"

namespace folio::manager {
namespace {

constexpr std::array<absl::string_view, 9> kReads = {
    "ListPools",   "ListSequences", "GetSequence", "ExplainEviction", "GetManager",
    "ListWorkers", "WatchEvents",   "ListTenants", "ListPages"};

}  // namespace

AdminCall AdminCallOf(const google::protobuf::Message& request) {
  const google::protobuf::FileDescriptor* file = v1::ListPoolsRequest::descriptor()->file();
  const google::protobuf::ServiceDescriptor* admin = file->FindServiceByName("Admin");
  for (int i = 0; i < admin->method_count(); ++i) {
    const google::protobuf::MethodDescriptor* method = admin->method(i);
    if (method->input_type() != request.GetDescriptor()) continue;
    const bool reads = std::find(kReads.begin(), kReads.end(), method->name()) != kReads.end();
    return {method->name(), reads ? access::Need::kView : access::Need::kSteer};
  }
  return {"unknown", access::Need::kSteer};
}

}  // namespace folio::manager
