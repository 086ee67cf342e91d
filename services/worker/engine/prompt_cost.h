// PromptCost learns how long prompt tokens take, from steps that have some. The model is
//
//   seconds of a token = seconds_at_start * (1 + growth * context)
//
// where `context` is the number of resident tokens that it attends to. Both numbers are learned:
// seconds_at_start from the last steps, and growth from the last dozens of them, since it takes
// steps with contexts of different lengths to tell.
//
// Not thread-safe.
#ifndef FOLIO_SERVICES_WORKER_ENGINE_PROMPT_COST_H_
#define FOLIO_SERVICES_WORKER_ENGINE_PROMPT_COST_H_

#include <cstdint>

namespace folio::worker {

// PromptRoom is how many prompt tokens still fit into a step. A token weighs more behind a longer
// context. A plain value.
struct PromptRoom {
  double weight = 0;      // in tokens without a context
  double growth = 0;      // of a token's weight, with each token of its context
  uint32_t most = 0;      // tokens, whatever they weigh
  uint32_t least = 0;     // tokens of the first chunk, whatever they weigh
  uint32_t multiple = 1;  // chunks that are less than was asked for have a multiple of it

  // The weight of so many tokens behind that context, which attend to each other too.
  double Weight(uint32_t tokens, uint32_t context) const;
  // As many of `asked` as fit behind that context.
  uint32_t Tokens(uint32_t asked, uint32_t context) const;
  // They may weigh more than there is room for.
  void Take(uint32_t tokens, uint32_t context);

  // Takes half of the room out, but at most what so many tokens behind that context need.
  PromptRoom TakeHalf(uint32_t tokens, uint32_t context);
  void PutBack(const PromptRoom& taken);
};

class PromptCost {
 public:
  // A step with so many prompt tokens, whose mean context was `context`, took so much longer than
  // it would have taken without them. The time of a short chunk is mostly that of reading the
  // weights, so one that is not `long_enough` only shows that longer ones cost no more.
  void Add(uint32_t tokens, double context, double seconds, bool long_enough);

  bool known() const { return seconds_at_start_ > 0; }
  double growth() const { return growth_; }
  double seconds_at_start() const { return seconds_at_start_; }
  double Seconds(uint32_t tokens, double context) const {
    return tokens * seconds_at_start_ * (1 + growth_ * context);
  }

 private:
  // Sums over the last steps, of which each counts for less than the one after it.
  struct Line {
    double count = 0, x = 0, xx = 0, y = 0, xy = 0;

    void Add(double context, double seconds);
  };

  void LearnGrowth();

  double seconds_at_start_ = 0;
  double growth_ = 0;
  Line line_;  // seconds of a token over its context
};

}  // namespace folio::worker

#endif  // FOLIO_SERVICES_WORKER_ENGINE_PROMPT_COST_H_
