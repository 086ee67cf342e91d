// Records are an input of several parts: of each a byte that says what it is, two bytes for its
// length, and its bytes. Some of them are messages of the protocol, which a mutator changes field
// by field, so that most of what it makes can be parsed.
#ifndef FOLIO_TESTS_FUZZ_PARSERS_RECORDS_H_
#define FOLIO_TESTS_FUZZ_PARSERS_RECORDS_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace folio::fuzz {

struct Record {
  uint8_t kind = 0;
  std::string bytes;
};

// The last record may be cut off.
std::vector<Record> ReadRecords(absl::string_view input);

// For LLVMFuzzerCustomMutator, of which these are the arguments. Records of a kind below
// `message_kinds` are messages of the type of `message`.
size_t MutateRecords(uint8_t* data, size_t size, size_t most, unsigned seed,
                     const google::protobuf::Message& message, uint8_t message_kinds);

}  // namespace folio::fuzz

#endif  // FOLIO_TESTS_FUZZ_PARSERS_RECORDS_H_
