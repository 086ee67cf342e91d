#include "services/client/utf8_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/text/utf8.h"

namespace folio::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// `path` is the path of fields to `message`, with a dot at its end.
absl::Status Check(const Message& message, const std::string& path) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool nested = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!nested && field->type() != FieldDescriptor::TYPE_STRING) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const std::string name =
          absl::StrCat(path, field->name(), field->is_repeated() ? absl::StrCat("[", i, "]") : "");
      if (nested) {
        const Message& part = field->is_repeated()
                                  ? reflection.GetRepeatedMessage(message, field, i)
                                  : reflection.GetMessage(message, field);
        if (absl::Status status = Check(part, name + "."); !status.ok()) return status;
        continue;
      }
      std::string copy;
      const std::string& text =
          field->is_repeated() ? reflection.GetRepeatedStringReference(message, field, i, &copy)
                               : reflection.GetStringReference(message, field, &copy);
      if (const auto at = FirstInvalidUtf8(text); at.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(name, " is not UTF-8 at byte ", *at));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckUtf8(const google::protobuf::Message& message) { return Check(message, ""); }

}  // namespace folio::client
