#include "tests/fuzz/parsers/records.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "tests/fuzz/parsers/byte_source.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace folio::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kHead = 3;
constexpr size_t kMostRecord = 0xFFFF;

std::string Write(const std::vector<Record>& records) {
  std::string out;
  for (const Record& record : records) {
    const size_t size = std::min(record.bytes.size(), kMostRecord);
    out += static_cast<char>(record.kind);
    out += static_cast<char>(size & 0xFF);
    out += static_cast<char>(size >> 8);
    out.append(record.bytes, 0, size);
  }
  return out;
}

// Changes one field of a message or of one inside it.
class MessageMutator {
 public:
  explicit MessageMutator(std::minstd_rand& random) : random_(random) {}

  void Mutate(Message* message) {
    const auto& type = *message->GetDescriptor();
    if (type.field_count() == 0) return;
    const Reflection& reflection = *message->GetReflection();
    // Mostly one that is there.
    std::vector<const FieldDescriptor*> present;
    reflection.ListFields(*message, &present);
    const FieldDescriptor* field =
        !present.empty() && !OneIn(3)
            ? present[Below(present.size())]
            : type.field(static_cast<int>(Below(static_cast<size_t>(type.field_count()))));
    if (field->is_repeated()) return MutateList(message, *field);
    const bool inside = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (reflection.HasField(*message, field) && OneIn(inside ? 12 : 6)) {
      return reflection.ClearField(message, field);
    }
    if (inside) return Mutate(reflection.MutableMessage(message, field));
    SetValue(message, *field, -1);
  }

 private:
  size_t Below(size_t end) { return static_cast<size_t>(random_()) % end; }
  bool OneIn(size_t count) { return Below(count) == 0; }

  uint64_t Number(uint64_t before) {
    switch (Below(6)) {
      case 0:
        return before + 1;
      case 1:
        return before - 1;
      case 2:
        return Below(20);
      case 3:
        return before ^ (uint64_t{1} << Below(64));
      case 4:
        return uint64_t{0} - Below(3);
      default:
        return uint64_t{1} << Below(64);
    }
  }

  std::string Text(std::string text) {
    text.resize(text.size() + 16);
    const size_t before = text.size() - 16;
    auto* bytes = reinterpret_cast<uint8_t*>(text.data());
    text.resize(LLVMFuzzerMutate(bytes, before, text.size()));
    return text;
  }

  void MutateList(Message* message, const FieldDescriptor& field) {
    const Reflection& reflection = *message->GetReflection();
    const int size = reflection.FieldSize(*message, &field);
    const bool inside = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (size == 0 || OneIn(5)) {
      if (!inside) return AddValue(message, field);
      Message* added = reflection.AddMessage(message, &field);
      if (size == 0) return Mutate(added);
      added->CopyFrom(reflection.GetRepeatedMessage(*message, &field, AnyOf(size)));
      return Mutate(added);
    }
    if (OneIn(6)) return reflection.RemoveLast(message, &field);
    if (OneIn(6)) return reflection.SwapElements(message, &field, AnyOf(size), AnyOf(size));
    const int index = AnyOf(size);
    if (inside) return Mutate(reflection.MutableRepeatedMessage(message, &field, index));
    SetValue(message, field, index);
  }
  int AnyOf(int size) { return static_cast<int>(Below(static_cast<size_t>(size))); }

  // As the last one of the list.
  void AddValue(Message* message, const FieldDescriptor& field) {
    const Reflection& r = *message->GetReflection();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return r.AddUInt32(message, &field, static_cast<uint32_t>(Number(0)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return r.AddUInt64(message, &field, Number(0));
      case FieldDescriptor::CPPTYPE_STRING:
        return r.AddString(message, &field, Text(""));
      default:
        return;  // the protocol has no lists of others here
    }
  }

  // Of the field, or of an item of the list if `index` is not -1.
  void SetValue(Message* message, const FieldDescriptor& field, int index) {
    const Reflection& r = *message->GetReflection();
    const auto change = [&](auto get, auto get_item, auto set, auto set_item, auto next) {
      if (index < 0) return (r.*set)(message, &field, next((r.*get)(*message, &field)));
      (r.*set_item)(message, &field, index, next((r.*get_item)(*message, &field, index)));
    };
    const auto number = [&]<typename T>(T before) {
      return static_cast<T>(Number(static_cast<uint64_t>(before)));
    };
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return change(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32,
                      &Reflection::SetUInt32, &Reflection::SetRepeatedUInt32, number);
      case FieldDescriptor::CPPTYPE_UINT64:
        return change(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64,
                      &Reflection::SetUInt64, &Reflection::SetRepeatedUInt64, number);
      case FieldDescriptor::CPPTYPE_INT32:
        return change(&Reflection::GetInt32, &Reflection::GetRepeatedInt32, &Reflection::SetInt32,
                      &Reflection::SetRepeatedInt32, number);
      case FieldDescriptor::CPPTYPE_INT64:
        return change(&Reflection::GetInt64, &Reflection::GetRepeatedInt64, &Reflection::SetInt64,
                      &Reflection::SetRepeatedInt64, number);
      case FieldDescriptor::CPPTYPE_ENUM:
        return change(&Reflection::GetEnumValue, &Reflection::GetRepeatedEnumValue,
                      &Reflection::SetEnumValue, &Reflection::SetRepeatedEnumValue,
                      [&](int before) { return OneIn(4) ? number(before) : AnyOf(8); });
      case FieldDescriptor::CPPTYPE_BOOL:
        return change(&Reflection::GetBool, &Reflection::GetRepeatedBool, &Reflection::SetBool,
                      &Reflection::SetRepeatedBool, [](bool before) { return !before; });
      case FieldDescriptor::CPPTYPE_FLOAT:
        return change(&Reflection::GetFloat, &Reflection::GetRepeatedFloat, &Reflection::SetFloat,
                      &Reflection::SetRepeatedFloat, [&](float before) { return Real(before); });
      case FieldDescriptor::CPPTYPE_STRING:
        return change(&Reflection::GetString, &Reflection::GetRepeatedString,
                      &Reflection::SetString, &Reflection::SetRepeatedString,
                      [&](std::string before) { return Text(std::move(before)); });
      default:
        return;
    }
  }

  float Real(float before) {
    static constexpr float kReals[] = {0, -0.0F, 0.25F, 0.5F, 0.9F, 1, -1, 3e38F, 1e-40F};
    if (OneIn(2)) return kReals[Below(std::size(kReals))];
    uint32_t bits = 0;  // any, also infinity and what is no number
    std::memcpy(&bits, &before, sizeof bits);
    bits ^= uint32_t{1} << Below(32);
    std::memcpy(&before, &bits, sizeof bits);
    return before;
  }

  std::minstd_rand& random_;
};

}  // namespace

std::vector<Record> ReadRecords(absl::string_view input) {
  std::vector<Record> records;
  ByteSource source(input);
  while (!source.empty()) {
    Record& record = records.emplace_back();
    record.kind = source.Byte();
    const size_t low = source.Byte();
    record.bytes = std::string(source.Take(low | size_t{source.Byte()} << 8));
  }
  return records;
}

size_t MutateRecords(uint8_t* data, size_t size, size_t most, unsigned seed, const Message& message,
                     uint8_t message_kinds) {
  std::minstd_rand random(seed);
  const auto below = [&](size_t end) { return static_cast<size_t>(random()) % end; };
  if (size < kHead || below(6) == 0) return LLVMFuzzerMutate(data, size, most);
  std::vector<Record> records = ReadRecords({reinterpret_cast<const char*>(data), size});
  const size_t at = below(records.size());
  const auto place = records.begin() + static_cast<std::ptrdiff_t>(at);
  const size_t choice = below(10);
  if (choice == 0) {
    records.erase(place);
  } else if (choice == 1) {
    records.insert(place, Record(records[below(records.size())]));
  } else if (choice == 2) {
    std::swap(records[at], records[below(records.size())]);
  } else if (Record& record = records[at]; record.kind < message_kinds) {
    const std::unique_ptr<Message> changed(message.New());
    (void)changed->ParseFromString(record.bytes);
    for (size_t times = 1 + below(3); times > 0; --times)
      MessageMutator(random).Mutate(changed.get());
    record.bytes = changed->SerializeAsString();
  } else {
    std::string bytes = record.bytes;
    const size_t before = bytes.size();
    bytes.resize(before + 32);
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), before, bytes.size()));
    record.bytes = std::move(bytes);
  }
  const std::string out = Write(records);
  if (out.empty() || out.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}

}  // namespace folio::fuzz
