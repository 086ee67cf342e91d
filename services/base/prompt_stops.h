// PromptStops are the lengths at which the prefill of a prompt stops so that it can be compacted:
// every `stride` tokens if it is compacted while it streams in, and at its end. The manager decides
// at a stop and the worker waits there, so both compute the stops from the same numbers.
//
// The stops count from the first token and not from the ends of the worker's chunks. So the same
// prompt is compacted in the same way whatever else the worker does.
#ifndef FOLIO_SERVICES_BASE_PROMPT_STOPS_H_
#define FOLIO_SERVICES_BASE_PROMPT_STOPS_H_

#include <algorithm>
#include <cstdint>

namespace folio {

class PromptStops {
 public:
  constexpr PromptStops() = default;
  // All in tokens. With a stride of 0 only the end is a stop. A stop that is fewer than `tail`
  // tokens before the end is left out, because the last queries of a prompt, which may score it,
  // must come in one chunk.
  constexpr PromptStops(uint32_t prompt, uint32_t stride, uint32_t tail)
      : prompt_(prompt), stride_(stride), tail_(std::max(tail, 1U)) {}

  // The first stop behind `length`. Behind the prompt it is the end.
  constexpr uint32_t Next(uint32_t length) const {
    if (stride_ == 0) return prompt_;
    const uint64_t next = (uint64_t{length} / stride_ + 1) * stride_;
    return next + tail_ > prompt_ ? prompt_ : static_cast<uint32_t>(next);
  }
  constexpr bool IsStop(uint32_t length) const {
    return length > 0 && length <= prompt_ && Next(length - 1) == length;
  }
  // The most tokens between two stops.
  constexpr uint64_t longest() const {
    return stride_ == 0 ? prompt_ : std::min<uint64_t>(prompt_, uint64_t{stride_} + tail_ - 1);
  }

 private:
  uint32_t prompt_ = 0;
  uint32_t stride_ = 0;
  uint32_t tail_ = 1;
};

}  // namespace folio

#endif  // FOLIO_SERVICES_BASE_PROMPT_STOPS_H_
