#include "services/manager/recovery.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/manager/journal/acknowledged.h"
#include "services/manager/journal_reader.h"

namespace folio::manager {

std::string MachineBoot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

absl::StatusOr<Recovered> Recover(const StateDirectory& directory, absl::string_view machine_boot) {
  JournalReader reader(machine_boot);
  const std::vector<uint64_t> files = directory.Files();
  const Acknowledged acknowledged(directory.path());
  const auto mark = acknowledged.Read();
  for (const uint64_t number : files) {
    const auto bytes = directory.Read(number);
    if (!bytes.ok()) {
      reader.NoteUnreadable(std::string(bytes.status().message()));
      continue;
    }
    if (absl::Status read = reader.ReadFile(directory.FileOf(number), *bytes); !read.ok()) {
      return read;
    }
    if (mark.ok() && mark->has_value() && (*mark)->number == number) reader.Expect((*mark)->bytes);
  }
  if (files.empty()) return reader.Take();
  if (!mark.ok()) reader.NoteUnreadable(std::string(mark.status().message()));
  if (mark.ok() && mark->has_value() && (*mark)->number > files.back()) {
    reader.NoteUnreadable(absl::StrCat(directory.FileOf((*mark)->number), " is missing"));
  }
  return reader.Take();
}

}  // namespace folio::manager
