// Frames are how a journal's file holds entries: each with its length and a checksum, so that a
// reader knows where a file was torn or damaged. The length has a checksum of its own, so that a
// damaged one is not taken for the end of a file.
//
//   4 bytes length, little-endian │ 4 bytes CRC-32 of the length │ 4 bytes CRC-32 of the entry │
//   the entry
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_FRAMES_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace folio::manager {

inline constexpr size_t kFrameHead = 12;

// The checksum that frames have.
uint32_t ChecksumOf(absl::string_view bytes);

// Appends `entry`, of less than 4 GiB, with its head.
void AppendFrame(absl::string_view entry, std::string* out);

// FrameReader gives the entries of a file one after the other. Borrows the bytes.
class FrameReader {
 public:
  explicit FrameReader(absl::string_view bytes) : bytes_(bytes) {}

  // The next entry, or nothing at the end and at the first one that is not whole.
  std::optional<absl::string_view> Next();

  // How the entries ended.
  enum class End {
    kClean,
    kTorn,     // the last one is cut off, as by a death in the middle of a write
    kDamaged,  // a checksum is wrong
  };
  End end() const { return end_; }
  // The beginning of the first entry that was not read.
  size_t offset() const { return offset_; }

 private:
  absl::string_view bytes_;
  size_t offset_ = 0;
  End end_ = End::kClean;
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_FRAMES_H_
