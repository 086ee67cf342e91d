// SessionRequests makes what a worker could send next for the sequences of a coordinator. Bytes
// decide what that is.
#ifndef FOLIO_TESTS_FUZZ_PARSERS_SESSION_REQUESTS_H_
#define FOLIO_TESTS_FUZZ_PARSERS_SESSION_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "folio/v1/kv_manager.pb.h"
#include "services/base/geometry.h"
#include "services/cache/coordinator.h"
#include "services/cache/inspector.h"
#include "tests/fuzz/parsers/byte_source.h"

namespace folio::fuzz {

class SessionRequests {
 public:
  // Borrows the coordinator.
  SessionRequests(const cache::Coordinator& coordinator, const CacheGeometry& geometry)
      : inspector_(coordinator), page_tokens_(geometry.page_tokens) {}

  // Continues, parks or closes sequences of the worker, claims orphans and opens sequences.
  v1::SessionRequest Next(WorkerId worker, uint64_t step, ByteSource& bytes) const;

 private:
  v1::OpenSequence Open(ByteSource& bytes) const;
  void Continue(const cache::SequenceInfo& info, ByteSource& bytes,
                v1::SessionRequest& request) const;
  v1::CommitTokens Commit(const cache::SequenceInfo& info, ByteSource& bytes) const;

  const cache::Inspector inspector_;
  const uint32_t page_tokens_;
};

}  // namespace folio::fuzz

#endif  // FOLIO_TESTS_FUZZ_PARSERS_SESSION_REQUESTS_H_
