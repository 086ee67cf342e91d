// EpisodeRecord is where an episode's coordinator tells its changes, and what the next manager of
// the episode continues from. Without one that is the mirror of the harness, in memory.
#ifndef FOLIO_TESTS_FUZZ_EPISODE_RECORD_H_
#define FOLIO_TESTS_FUZZ_EPISODE_RECORD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/base/ids.h"
#include "services/cache/coordinator.h"
#include "services/cache/journal.h"
#include "services/cache/restoration.h"
#include "tests/cache/coordinator_harness.h"

namespace folio::cache {

class EpisodeRecord {
 public:
  virtual ~EpisodeRecord() = default;

  // The next coordinator tells it its changes.
  virtual Journal& journal() = 0;
  // After each step, with the workers that there are now. Returns what is wrong, or "".
  virtual std::string AfterStep(const std::vector<WorkerId>& workers) = 0;
  // The manager dies. The next one reads this, which should be as expected.
  virtual absl::StatusOr<SavedCache> Die(const SavedCache& expected) = 0;
  // The next one has told the journal everything again.
  virtual void AfterRestart(bool has_contents) = 0;
};

// Borrows the harness, whose coordinator is not there yet.
using MakeEpisodeRecord = std::function<std::unique_ptr<EpisodeRecord>(Harness&, uint64_t seed)>;

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_EPISODE_RECORD_H_
