// ApiKeys are the keys that clients show, each with its tenant. The file holds hashes only, so that
// a reader of it learns no key.
#ifndef FOLIO_SERVICES_GATEWAY_API_KEYS_H_
#define FOLIO_SERVICES_GATEWAY_API_KEYS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/access/changing_file.h"

namespace folio::gateway {

struct ApiKey {
  std::string hash;    // SHA-256 of the key, 32 bytes
  std::string tenant;  // at most 64 bytes
  bool is_operator = false;
};

// The one who shows a key.
struct KeyHolder {
  std::string tenant;
  bool is_operator = false;  // may see the state of the cache, of all tenants
};

// The lines of a file: the hash as 64 hexadecimal digits, the tenant, and for an operator the word
// "operator". Empty lines and those that begin with # say nothing. INVALID_ARGUMENT names the line.
absl::StatusOr<std::vector<ApiKey>> ParseApiKeys(absl::string_view text);

// Thread-safe.
class ApiKeys {
 public:
  // Errors as of ParseApiKeys, and NOT_FOUND if there is no such file.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Load(const std::string& path);

  // The holder of the key, or nothing. The time that it takes does not tell how near a wrong key
  // is. A file that has changed is read again, at most once a second. If the new one is wrong, that
  // is logged, and the old keys count.
  std::optional<KeyHolder> HolderOf(absl::string_view key) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit ApiKeys(const std::string& path) : file_(path) {}
  // The keys from now on. Errors as of Load.
  absl::Status Use(absl::StatusOr<std::string> text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  access::ChangingFile file_ ABSL_GUARDED_BY(mutex_);
  std::vector<ApiKey> keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_API_KEYS_H_
