// SharedMapping is shared memory of the manager, mapped by this process.
#ifndef FOLIO_SERVICES_WORKER_POOL_HOST_MAPPING_H_
#define FOLIO_SERVICES_WORKER_POOL_HOST_MAPPING_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace folio::worker {

// The destructor unmaps it.
class SharedMapping {
 public:
  // `what` is for messages. FAILED_PRECONDITION: the memory is shorter than `bytes`, or not sealed
  // against shrinking. An access behind a shrunk end would kill this process.
  static absl::StatusOr<SharedMapping> Map(int fd, size_t bytes, const std::string& what);
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&&) = delete;
  ~SharedMapping();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Asks for transparent huge pages. This must come before the first access, which decides the kind
  // of page.
  void AskForHugePages();

 private:
  SharedMapping(std::byte* data, size_t bytes) : data_(data), bytes_(bytes) {}
  std::byte* data_;
  size_t bytes_;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_POOL_HOST_MAPPING_H_
