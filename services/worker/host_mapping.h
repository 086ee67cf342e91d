// Shared memory of the manager, mapped by this process.
#ifndef FOLIO_SERVICES_WORKER_HOST_MAPPING_H_
#define FOLIO_SERVICES_WORKER_HOST_MAPPING_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace folio::worker {

// One shared mapping; unmapped on destruction.
class SharedMapping {
 public:
  // `what` is for messages. FAILED_PRECONDITION: shorter than `bytes`, or not sealed against
  // shrinking, so that a touch could kill us.
  static absl::StatusOr<SharedMapping> Map(int fd, size_t bytes, const std::string& what);
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&&) = delete;
  ~SharedMapping();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Transparent ones, before the first touch: whoever touches a page first decides what it is.
  void AskForHugePages();

 private:
  SharedMapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  size_t bytes_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_HOST_MAPPING_H_
