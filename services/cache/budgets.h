// Budgets says what the layers of a sequence may hold now and later: their budgets, or more as long
// as budgets that an operator lowered were not reached (shrinking.h). A prompt has the budgets that
// the sequence was opened with, also when it is computed again. A layer with a window may hold
// that.
//
// Borrows the record for the duration of a call under the coordinator's lock.
#ifndef FOLIO_SERVICES_CACHE_BUDGETS_H_
#define FOLIO_SERVICES_CACHE_BUDGETS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "services/base/footprint.h"
#include "services/cache/sequence_record.h"

namespace folio::cache {

class Budgets {
 public:
  explicit Budgets(const SequenceRecord& record) : record_(record) {}

  // The policy evicts, and some layer has more tokens in full pages than its budget.
  bool over() const;
  // Pages over all layers that are to go for that.
  uint64_t PagesOver() const;
  // Tokens of full pages that the layer may have now, and the pages that go with it.
  uint64_t Allowance(size_t layer) const;
  Footprint FootprintOf(size_t layer) const { return {page_tokens(), Allowance(layer)}; }
  // Tokens in full pages of each layer, as far as they are allowed.
  std::vector<uint64_t> FullTokens() const;
  // The most pages of the rest of its life, over all layers. It may be computed again.
  uint64_t WorstCase() const;

 private:
  uint32_t page_tokens() const { return record_.geometry.page_tokens; }
  uint64_t AllowanceInPrompt(size_t layer) const;

  const SequenceRecord& record_;
};

}  // namespace folio::cache

#endif  // FOLIO_SERVICES_CACHE_BUDGETS_H_
