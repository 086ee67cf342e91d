#include "services/manager/pool_folders.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "services/manager/pool_share.h"
#include "services/manager/recovery.h"
#include "services/runtime/logging.h"

namespace folio::manager {

std::string PoolFolders::Of(absl::string_view pool) const {
  if (state_dir_.empty() || pool == kDefaultPool) return state_dir_;
  return absl::StrCat(state_dir_, "/pools/", pool);
}

absl::Status PoolFolders::SkipIdsOf(const std::string& pool, const StateDirectory& folder,
                                    cache::IdSource* ids) {
  const auto recovered = Recover(folder);
  if (!recovered.ok()) return recovered.status();
  ids->Skip(recovered->last_ids);
  const size_t sequences = recovered->cache.sequences.size();
  if (sequences == 0) return absl::OkStatus();
  log::Warning("the sequences of a pool are not continued, because --pools does not name it",
               {{"pool", pool}, {"sequences", sequences}, {"folder", folder.path()}});
  return absl::OkStatus();
}

absl::Status PoolFolders::KeepOthers(const std::set<std::string>& served, cache::IdSource* ids) {
  if (state_dir_.empty()) return absl::OkStatus();
  if (!served.contains(kDefaultPool)) {
    auto folder = StateDirectory::Open(state_dir_);
    if (!folder.ok()) return folder.status();
    lock_ = *std::move(folder);
    if (absl::Status s = SkipIdsOf(kDefaultPool, *lock_, ids); !s.ok()) return s;
  }
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(state_dir_ + "/pools", failed)) {
    const std::string pool = entry.path().filename().string();
    if (served.contains(pool) || !entry.is_directory(failed)) continue;
    const auto folder = StateDirectory::Open(entry.path().string());
    if (!folder.ok()) return folder.status();
    if (absl::Status s = SkipIdsOf(pool, **folder, ids); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace folio::manager
