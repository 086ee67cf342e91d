#include "services/client/policy_text.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace folio::client {
namespace {

namespace v1 = folio::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// In the protocol a policy with parameters is a message of numbers, flags and enums. A policy that
// contains another (Policy itself, kv_crush with its base) is a message with a oneof of messages.

using Words = std::vector<std::pair<std::string, int>>;

// The allowed words of a parameter that is not a number.
Words WordsOf(const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) return {{"crush", 0}, {"base", 1}};
  Words words;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    for (int i = 0; i < field.enum_type()->value_count(); ++i) {
      const auto& value = *field.enum_type()->value(i);
      if (value.number() == 0) continue;  // unspecified
      words.emplace_back(absl::AsciiStrToLower(absl::StripPrefix(value.name(), "CRUSH_ANCHOR_")),
                         value.number());
    }
  }
  return words;
}

std::string ParameterName(const FieldDescriptor& field) {
  // The only boolean parameter, which says which policy drops pages in decode.
  return field.name() == "prefill_only" ? "decode" : std::string(field.name());
}

// True for a field that is a number, a flag or an enum.
bool IsParameter(const FieldDescriptor& field) {
  return field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
}

// Returns false if the field cannot have the value.
bool SetValue(const FieldDescriptor& field, absl::string_view value, Message* out) {
  const Reflection& reflection = *out->GetReflection();
  uint32_t number = 0;
  uint64_t long_number = 0;
  float real = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!absl::SimpleAtoi(value, &number)) return false;
      reflection.SetUInt32(out, &field, number);
      return true;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!absl::SimpleAtoi(value, &long_number)) return false;
      reflection.SetUInt64(out, &field, long_number);
      return true;
    case FieldDescriptor::CPPTYPE_FLOAT:
      if (!absl::SimpleAtof(value, &real)) return false;
      reflection.SetFloat(out, &field, real);
      return true;
    default:
      break;
  }
  for (const auto& [word, meaning] : WordsOf(field)) {
    if (word != value) continue;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
      reflection.SetBool(out, &field, meaning != 0);
    } else {
      reflection.SetEnumValue(out, &field, meaning);
    }
    return true;
  }
  return false;
}

// Empty for a word that this version does not know.
std::string ValueText(const FieldDescriptor& field, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  int meaning = 0;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(reflection.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(reflection.GetUInt64(message, &field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return absl::StrCat(reflection.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      meaning = reflection.GetBool(message, &field) ? 1 : 0;
      break;
    default:
      meaning = reflection.GetEnumValue(message, &field);
  }
  for (const auto& [word, number] : WordsOf(field)) {
    if (number == meaning) return word;
  }
  return "";
}

// The message inside this one, which is the policy's own message or a base's, or null if there can
// be none. Without a choice it is the first one, full or paged_eviction.
const FieldDescriptor* Chosen(const Message& message) {
  if (message.GetDescriptor()->real_oneof_decl_count() == 0) return nullptr;
  const auto& choice = *message.GetDescriptor()->oneof_decl(0);
  const FieldDescriptor* set = message.GetReflection()->GetOneofFieldDescriptor(message, &choice);
  return set != nullptr ? set : choice.field(0);
}

// Makes the choice with this name, or returns null if there is none.
Message* Choose(absl::string_view name, Message* out) {
  const FieldDescriptor* field = out->GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr || IsParameter(*field)) return nullptr;
  return out->GetReflection()->MutableMessage(out, field);
}

// Sets a parameter of the policy, or of its base if the policy has no parameter of this name.
bool SetParameter(absl::string_view name, absl::string_view value, Message* out) {
  const Descriptor& descriptor = *out->GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (IsParameter(field) && ParameterName(field) == name) return SetValue(field, value, out);
  }
  const FieldDescriptor* base = Chosen(*out);
  return base != nullptr &&
         SetParameter(name, value, out->GetReflection()->MutableMessage(out, base));
}

// For example "window=N" or "anchor=mean|alternating".
std::string ParameterUsage(const FieldDescriptor& field) {
  const Words words = WordsOf(field);
  const std::string values = absl::StrJoin(
      words, "|", [](std::string* out, const auto& word) { out->append(word.first); });
  return absl::StrCat(ParameterName(field), "=", words.empty() ? "N" : values);
}

// The usage of each parameter, or "snap_kv[,window=N]" for a base.
std::vector<std::string> Usage(const Descriptor& descriptor) {
  std::vector<std::string> items;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    std::string item = IsParameter(field) ? ParameterUsage(field) : ParameterName(field);
    if (!IsParameter(field)) {
      for (const auto& own : Usage(*field.message_type())) absl::StrAppend(&item, "[,", own, "]");
    }
    items.push_back(std::move(item));
  }
  return items;
}

std::string Names() {
  const Descriptor& policy = *v1::Policy::descriptor();
  std::string names;
  for (int i = 0; i < policy.field_count(); ++i) {
    const absl::string_view separator = i + 1 == policy.field_count() ? " or " : ", ";
    absl::StrAppend(&names, i == 0 ? "" : separator, policy.field(i)->name());
  }
  return names;
}

// Writes the inner choice and its parameters, then the message's own in the protocol's order.
void Append(const Message& message, std::vector<std::string>* items) {
  const Reflection& reflection = *message.GetReflection();
  if (const FieldDescriptor* chosen = Chosen(message); chosen != nullptr) {
    items->emplace_back(chosen->name());
    Append(reflection.GetMessage(message, chosen), items);
  }
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    if (!IsParameter(field) || !reflection.HasField(message, &field)) continue;
    const std::string value = ValueText(field, message);
    if (!value.empty()) items->push_back(absl::StrCat(ParameterName(field), "=", value));
  }
}

}  // namespace

absl::StatusOr<v1::Policy> ParsePolicy(absl::string_view text) {
  const auto refuse = [&](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("policy \"", text, "\": ", why...));
  };
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  v1::Policy policy;
  Message* chosen = Choose(parts.first, &policy);
  if (chosen == nullptr) return refuse("no such policy; use ", Names());
  if (parts.second.empty()) return policy;
  const std::vector<absl::string_view> items = absl::StrSplit(parts.second, ',');
  // Bases come first, because a base may be written after its parameters.
  for (const bool bases : {true, false}) {
    for (const absl::string_view item : items) {
      const std::pair<absl::string_view, absl::string_view> pair =
          absl::StrSplit(item, absl::MaxSplits('=', 1));
      if (absl::StrContains(item, '=') == bases) continue;
      const bool taken =
          bases ? Choose(item, chosen) != nullptr : SetParameter(pair.first, pair.second, chosen);
      if (taken) continue;
      const std::string usage = absl::StrJoin(Usage(*chosen->GetDescriptor()), ", ");
      return refuse("\"", item, "\" is not a parameter of ", parts.first, "; it takes ",
                    usage.empty() ? "none" : usage);
    }
  }
  return policy;
}

std::vector<std::string> PolicyForms() {
  std::vector<std::string> forms;
  const Descriptor& policies = *v1::Policy::descriptor();
  for (int i = 0; i < policies.field_count(); ++i) {
    const Descriptor& parameters = *policies.field(i)->message_type();
    std::vector<std::string> items;
    if (parameters.real_oneof_decl_count() > 0) items.push_back("BASE");
    for (int j = 0; j < parameters.field_count(); ++j) {
      const FieldDescriptor& field = *parameters.field(j);
      if (IsParameter(field)) items.push_back(ParameterUsage(field));
    }
    std::string form(policies.field(i)->name());
    for (size_t j = 0; j < items.size(); ++j) {
      absl::StrAppend(&form, j == 0 ? "[:" : "[,", items[j], "]");
    }
    forms.push_back(std::move(form));
  }
  return forms;
}

std::string PolicyText(const v1::Policy& policy) {
  std::vector<std::string> items;
  Append(policy, &items);
  const std::string name = std::move(items.front());
  items.erase(items.begin());
  return items.empty() ? name : absl::StrCat(name, ":", absl::StrJoin(items, ","));
}

}  // namespace folio::client
