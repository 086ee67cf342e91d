// ModelSteering is the part of CacheModel about what an operator may order.
#ifndef FOLIO_TESTS_FUZZ_MODEL_STEERING_H_
#define FOLIO_TESTS_FUZZ_MODEL_STEERING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "services/cache/steering.h"
#include "tests/fuzz/cache_model.h"

namespace folio::cache {

class ModelSteering {
 public:
  // Borrows the model.
  explicit ModelSteering(CacheModel& model) : model_(model) {}

  // The answer that an order should get.
  absl::StatusCode ExpectPark(SequenceId id) const;
  absl::StatusCode ExpectPin(SequenceId id) const;
  absl::StatusCode ExpectLower(SequenceId id, uint64_t budget) const;
  // The order was accepted.
  void DidClose(SequenceId id);
  void DidPin(SequenceId id);
  // Returns an error in the answer or "".
  std::string DidLower(SequenceId id, uint64_t budget, const LoweredBudget& lowered);
  // The orders that a worker hears of. Adds to `park`, and to the `offers` of the attention that
  // are explained. Returns an error or "".
  std::string Take(WorkerId worker, const Attention& attention, std::vector<SequenceId>* park,
                   size_t* offers);

 private:
  CacheModel& model_;
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_STEERING_H_
