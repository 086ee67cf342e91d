// ChunkSizes decides how many prompt tokens the next step may have, from how long steps took.
//
// A stream waits for the whole step that its token is in. So beside decodes a step gets as many
// prompt tokens as bring it to the target for the time between two tokens. The model is
//
//   time = decode + cost of the prompt tokens * margin
//
// where `decode` is the time of the last steps without prompts, and the cost comes from the last
// steps with some (prompt_cost.h). An error of one is made up for by the other, because both are
// taken from steps of the present size. Steps vary, and a target that half of them miss is none. So
// the margin is learned as well, such that 19 of 20 steps with prompts should take no longer.
//
// If decoding is much faster than the target, a stream would stumble at each prompt, so
// most_times_decode bounds steps as well. If decoding alone takes longer than the target, prompts
// still get half as much time again, because they would never end otherwise. Steps without decodes
// may take five times the target, so that a request that arrives waits no longer.
//
// Not thread-safe. The step loop owns it.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_CHUNK_SIZES_H_
#define FOLIO_SERVICES_WORKER_ENGINE_CHUNK_SIZES_H_

#include <cstdint>

#include "absl/time/time.h"
#include "services/worker/engine/prompt_cost.h"

namespace folio::worker {

// TokenBudget is the number of prompt tokens that a step may have in all, of several prompts
// together.
struct TokenBudget {
  uint32_t alone = 512;           // in a step without decodes
  uint32_t beside_decodes = 128;  // never more than alone
  // Steps that are not fixed have fewer tokens if they would take too long.
  bool fixed_alone = true;
  bool fixed_beside_decodes = true;
  absl::Duration target_itl = absl::ZeroDuration();  // wanted between two tokens of a stream
  // If it is not 0, prompts also make a step at most so many times as long as decoding alone.
  double most_times_decode = 0;
  // Steps that are not fixed have at least so many tokens, since fewer would not use the device's
  // arithmetic units and take nearly as long.
  uint32_t least = 16;
  // Prompts of at most so many tokens are short (see places.h).
  uint32_t short_prompt = 128;
};

// StepSize is the tokens of a step, by kind.
struct StepSize {
  uint32_t decodes = 0;
  uint32_t prompt_tokens = 0;
  double context = 0;  // resident tokens that a prompt token attends to, on average
};

class ChunkSizes {
 public:
  explicit ChunkSizes(const TokenBudget& budget) : budget_(budget) {}

  // A step of that size took so long, without the time that it waited for the one before it.
  void Add(const StepSize& size, absl::Duration took);
  // For the next step, with so many decodes.
  PromptRoom Choose(uint32_t decodes) const;

 private:
  // Room for `seconds` of tokens, and for at most `most` of them.
  PromptRoom RoomIn(double seconds, const PromptCost& cost, uint32_t most) const;
  PromptRoom Alone() const;
  PromptRoom BesideDecodes() const;

  const TokenBudget budget_;
  double decode_ = 0;  // seconds of a step without prompts; 0 if there was none
  PromptCost alone_;
  PromptCost beside_;
  double margin_ = 1;  // of steps beside decodes, to what is expected of them
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_CHUNK_SIZES_H_
