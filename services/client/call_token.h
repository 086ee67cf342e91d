// CallToken is the token that a client sends with its calls, so that a server knows its caller. It
// is for the clients of this folder.
#ifndef FOLIO_SERVICES_CLIENT_CALL_TOKEN_H_
#define FOLIO_SERVICES_CLIENT_CALL_TOKEN_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/base/steady_time.h"
#include "services/client/call.h"

namespace folio::client {

// Thread-safe.
class CallToken {
 public:
  // Null without a token. INVALID_ARGUMENT: the token or its file cannot be used, both are given,
  // or the connection to `address` would carry it in plain over a network.
  static absl::StatusOr<std::shared_ptr<CallToken>> Make(absl::string_view address,
                                                         const ConnectOptions& options);

  // The value of the header authorization. A file is read again at most once a second. While it
  // cannot be used, the last token stays.
  std::string Header() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  CallToken(std::string token, std::string file)
      : file_(std::move(file)), token_(std::move(token)), looked_(SteadyNow()) {}

  const std::string file_;  // empty if the token was given itself
  absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  SteadyTime looked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace folio::client

#endif  // FOLIO_SERVICES_CLIENT_CALL_TOKEN_H_
