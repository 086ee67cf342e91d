// The processes of a worker's other ranks, where the leader starts them itself.
#ifndef FOLIO_SERVICES_WORKER_SPAWNED_RANKS_H_
#define FOLIO_SERVICES_WORKER_SPAWNED_RANKS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace folio::worker {

// Move-only. The processes end by themselves when the leader's group does; the destructor waits
// for that, and kills who takes longer than some seconds.
class SpawnedRanks {
 public:
  // This program again, with the arguments it was started with and each rank's --rank, --group,
  // --threads and --leader_pid behind them: flags given twice have their last value. The calling
  // thread must live as long as the process: the ranks end when it does.
  static absl::StatusOr<SpawnedRanks> Start(uint32_t ranks, const std::string& group_socket,
                                            int threads);
  SpawnedRanks(SpawnedRanks&& other) noexcept;
  SpawnedRanks& operator=(SpawnedRanks&&) = delete;
  ~SpawnedRanks();

  // UNAVAILABLE names one that has ended.
  absl::Status Check();
  // Ends those that have no group whose end they would notice.
  void Kill();

 private:
  SpawnedRanks() = default;
  std::vector<pid_t> pids_;  // of ranks from 1; 0: it has ended, and was waited for
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_SPAWNED_RANKS_H_
