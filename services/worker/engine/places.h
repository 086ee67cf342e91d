// Places counts how many more sequences may run. An eighth of --max_batch is kept for short
// prompts, so that long ones, whose sequences run for long, do not keep a chat waiting for a whole
// answer.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_PLACES_H_
#define FOLIO_SERVICES_WORKER_ENGINE_PLACES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace folio::worker {

class Places {
 public:
  // No place at all.
  Places() = default;
  // `most` sequences may run. Prompts of at most `short_prompt` tokens are short.
  Places(size_t most, uint32_t short_prompt)
      : any_(most), long_(most - most / kShortShare), short_prompt_(short_prompt) {}

  bool Admits(size_t prompt_tokens) const { return (IsLong(prompt_tokens) ? long_ : any_) > 0; }

  // A sequence runs. One that was parked or lost elsewhere takes any place.
  void Use(size_t prompt_tokens) {
    any_ -= std::min<size_t>(any_, 1);
    if (IsLong(prompt_tokens)) long_ -= std::min<size_t>(long_, 1);
    long_ = std::min(long_, any_);
  }

  size_t free() const { return any_; }

 private:
  static constexpr size_t kShortShare = 8;  // one place of so many

  bool IsLong(size_t prompt_tokens) const { return prompt_tokens > short_prompt_; }

  size_t any_ = 0;
  size_t long_ = 0;  // of any_, for long prompts too
  uint32_t short_prompt_ = 0;
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_PLACES_H_
