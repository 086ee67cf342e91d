// PoolFolders says where the journal of each pool lies in a state directory, and has the directory
// for one manager alone.
#ifndef FOLIO_SERVICES_MANAGER_POOL_FOLDERS_H_
#define FOLIO_SERVICES_MANAGER_POOL_FOLDERS_H_

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/cache/id_source.h"
#include "services/manager/journal/state_directory.h"

namespace folio::manager {

// Thread-compatible.
class PoolFolders {
 public:
  // An empty `state_dir` has no folders.
  explicit PoolFolders(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // The folder itself for the pool "default", as it was before there were names, and pools/NAME in
  // it for another one. Empty without a state directory.
  std::string Of(absl::string_view pool) const;

  // Looks at the journals of pools that are not in `served`, which earlier managers had. They stay
  // as they are, and their ids are skipped so that none is given twice. The log says whose
  // sequences are not continued. The errors are those of StateDirectory::Open and Recover.
  absl::Status KeepOthers(const std::set<std::string>& served, cache::IdSource* ids);

 private:
  absl::Status SkipIdsOf(const std::string& pool, const StateDirectory& folder,
                         cache::IdSource* ids);

  const std::string state_dir_;
  std::unique_ptr<StateDirectory> lock_;  // on the state directory, if no pool has it
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_POOL_FOLDERS_H_
