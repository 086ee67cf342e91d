// SpawnedRanks is the processes of a worker's other ranks, where the leader starts them itself.
#ifndef FOLIO_SERVICES_WORKER_RANKS_SPAWNED_RANKS_H_
#define FOLIO_SERVICES_WORKER_RANKS_SPAWNED_RANKS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace folio::worker {

// Move-only. The processes end by themselves when the leader's group does. The destructor waits for
// that, and kills processes that take longer than some seconds.
class SpawnedRanks {
 public:
  // Starts this program again with its own arguments, followed by each rank's --rank, --group,
  // --threads and --leader_pid. The last value of a repeated flag counts. The calling thread must
  // live as long as the process, because the kernel ends the ranks when that thread ends.
  static absl::StatusOr<SpawnedRanks> Start(uint32_t ranks, const std::string& group_socket,
                                            int threads);
  SpawnedRanks(SpawnedRanks&& other) noexcept;
  SpawnedRanks& operator=(SpawnedRanks&&) = delete;
  ~SpawnedRanks();

  // UNAVAILABLE names a rank that has ended.
  absl::Status Check();
  // Ends ranks that have not joined a group yet, and so would not notice its end.
  void Kill();

 private:
  SpawnedRanks() = default;
  std::vector<pid_t> pids_;  // of ranks from 1; 0 once the process was waited for
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_RANKS_SPAWNED_RANKS_H_
