// Recover reads the journal that the managers before this one have left in a state directory.
#ifndef FOLIO_SERVICES_MANAGER_RECOVERY_H_
#define FOLIO_SERVICES_MANAGER_RECOVERY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "folio/state/v1/journal.pb.h"
#include "services/cache/coordinator_options.h"
#include "services/cache/restoration.h"
#include "services/cache/tenant_quotas.h"
#include "services/manager/journal/state_directory.h"

namespace folio::manager {

// The version of the files that this manager writes, the newest that it reads.
inline constexpr uint32_t kJournalVersion = 1;

// The kernel's id of this boot of the machine, or empty if it does not tell.
std::string MachineBoot();

// Everything that the last manager knew when it ended.
struct Recovered {
  // Without one only the ids and the quotas are of use.
  std::optional<folio::state::v1::JournalPool> pool;
  std::vector<folio::state::v1::JournalWorker> workers;
  // Without the workers. `has_contents` is false after another boot of the machine and after
  // damage: what is believed then is the tokens.
  cache::SavedCache cache;
  // No id above these was given, also by entries that could not be read.
  cache::LastIds last_ids;
  cache::QuotasByTenant quotas;  // that operators have set
  uint64_t manager_boot = 0;     // how many managers have had the directory
  std::string pid_namespace;     // of the last one
  // The files and places that could not be read, for people.
  std::vector<std::string> damage;
  uint64_t torn_bytes = 0;  // of entries that a manager died while it wrote them
};

// FAILED_PRECONDITION for files of a newer version, which are left as they are. A damaged file is
// read up to its damage.
absl::StatusOr<Recovered> Recover(const StateDirectory& directory,
                                  absl::string_view machine_boot = MachineBoot());

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_RECOVERY_H_
