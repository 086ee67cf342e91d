// Tests of journals compare the bytes of files, and those of sequences as entries have them.
#ifndef FOLIO_TESTS_MANAGER_JOURNAL_BYTES_H_
#define FOLIO_TESTS_MANAGER_JOURNAL_BYTES_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "folio/state/v1/journal.pb.h"
#include "services/cache/saved_sequence.h"
#include "services/manager/journal_messages.h"

namespace folio::manager {

inline std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::string Bytes(const cache::SavedSequence& saved) {
  state::JournalSequence message;
  ToMessage(saved, &message);
  return message.SerializeAsString();
}

}  // namespace folio::manager

#endif  // FOLIO_TESTS_MANAGER_JOURNAL_BYTES_H_
