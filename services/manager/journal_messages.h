// These functions convert what a journal keeps of sequences to its messages and back. They are pure
// and may be called from any thread.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_MESSAGES_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_MESSAGES_H_

#include "absl/status/statusor.h"
#include "folio/state/v1/journal.pb.h"
#include "services/base/geometry.h"
#include "services/cache/restoration.h"
#include "services/cache/saved_sequence.h"

namespace folio::manager {

namespace state = folio::state::v1;

void ToMessage(const cache::SavedSequence& saved, state::JournalSequence* out);
void ToMessage(const cache::SavedChange& change, state::JournalChange* out);
void ToMessage(const cache::SavedQuarantine& quarantine, state::JournalQuarantine* out);

// INTERNAL, which names the sequence, for a message that no manager of this version writes.
absl::StatusOr<cache::SavedSequence> FromMessage(const state::JournalSequence& message,
                                                 const CacheGeometry& geometry);
absl::StatusOr<cache::SavedChange> FromMessage(const state::JournalChange& message,
                                               const CacheGeometry& geometry);
absl::StatusOr<cache::SavedQuarantine> FromMessage(const state::JournalQuarantine& message);

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_MESSAGES_H_
