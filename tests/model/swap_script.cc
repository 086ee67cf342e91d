#include "tests/model/swap_script.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/base/check.h"

namespace folio::model::testing {
namespace {

constexpr uint32_t kPrompt = 40;
constexpr uint32_t kPagesEach = 5;  // per layer

class Swapping {
 public:
  Swapping(Executor& executor, TestPool& pool, kernels::ScoreKind score)
      : executor_(executor), pool_(pool), score_(score) {}

  struct Twin {
    SequenceSlot slot;
    LayerPageLists pages;
  };

  Twin Open(LayerPageLists pages) {
    Twin twin{executor_.tables().Acquire(score_), std::move(pages)};
    executor_.tables().Extend(twin.slot, twin.pages);
    return twin;
  }

  // Feeds `tokens` positions from `first` to each, as chunks of prompts or as one decoded token.
  std::string Step(const std::vector<Twin*>& twins, uint32_t first, uint32_t tokens, bool prompt) {
    StepBatch batch;
    for (const Twin* twin : twins) {
      StepSegment segment;
      segment.slot = twin->slot;
      segment.prompt = prompt;
      segment.first_position = Position(first);
      for (uint32_t at = first; at < first + tokens; ++at) {
        segment.tokens.emplace_back((13 * at + 3) % 101);
      }
      segment.want_output = true;
      segment.top_logprobs = 3;
      batch.segments.push_back(std::move(segment));
    }
    const StepOutput output = executor_.Collect(executor_.Enqueue(batch));
    if (!output.status.ok()) return output.status.ToString();
    for (const SegmentOutput& one : output.outputs) {
      if (one.token == output.outputs[0].token && one.top == output.outputs[0].top) continue;
      return absl::StrCat("another token after position ", first + tokens - 1);
    }
    return "";
  }

  // Swaps the twin out, has another sequence write its pages, and swaps it in to other pages.
  std::string Move(Twin& twin, uint32_t length) {
    const uint32_t page_tokens = pool_.view().geometry.page_tokens;
    PageSwaps out{.out = true, .pages = {}};
    for (const PageList& layer : twin.pages) {
      for (uint32_t block = 0; block * page_tokens < length; ++block) {
        // Not in their order, and not from the first one on.
        const auto slot = static_cast<uint32_t>(TestPool::kSwapSlots - 1 - 2 * out.pages.size());
        out.pages.push_back({layer[block].page, SwapSlot(slot)});
      }
    }
    executor_.Swap(out);
    StepOutput after = executor_.Collect(executor_.Enqueue({}));  // the copies are there
    if (!after.status.ok()) return after.status.ToString();
    executor_.tables().Release(twin.slot);
    Twin other = Open(twin.pages);
    std::string wrong = Step({&other}, 0, kPagesEach * page_tokens, true);
    if (!wrong.empty()) return wrong;
    executor_.tables().Release(other.slot);

    twin.pages = pool_.Take(kPagesEach);
    twin.slot = executor_.tables().Acquire(score_);
    std::vector<ClaimedLayer> layers;
    PageSwaps in;
    for (const PageList& layer : twin.pages) {
      layers.push_back({layer, {{Position(0), Position(length)}}, {}});
      for (uint32_t block = 0; block * page_tokens < length; ++block) {
        in.pages.push_back({layer[block].page, out.pages[in.pages.size()].slot});
      }
    }
    executor_.tables().Restore(twin.slot, layers);
    executor_.Swap(in);
    return "";
  }

 private:
  Executor& executor_;
  TestPool& pool_;
  const kernels::ScoreKind score_;
};

// The bits of all scores of both, of tokens that are there.
std::string CompareScores(const kernels::PoolView& board, const Swapping::Twin& one,
                          const Swapping::Twin& other, uint32_t length) {
  const CacheGeometry& geometry = board.geometry;
  const size_t row = geometry.num_kv_heads * sizeof(float);
  for (size_t layer = 0; layer < one.pages.size(); ++layer) {
    for (uint32_t at = 0; at < length; ++at) {
      const uint32_t block = at / geometry.page_tokens;
      const size_t offset = size_t{at % geometry.page_tokens} * geometry.num_kv_heads;
      const float* a = board.page_scores(one.pages[layer][block].page.value()) + offset;
      const float* b = board.page_scores(other.pages[layer][block].page.value()) + offset;
      if (std::memcmp(a, b, row) != 0) {
        return absl::StrCat("other scores of token ", at, " in layer ", layer);
      }
    }
  }
  return "";
}

}  // namespace

std::string PlaySwap(Executor& executor, TestPool& pages, const kernels::PoolView& board,
                     kernels::ScoreKind score) {
  Swapping play(executor, pages, score);
  Swapping::Twin stays = play.Open(pages.Take(kPagesEach));
  Swapping::Twin moves = play.Open(pages.Take(kPagesEach));
  std::string wrong = play.Step({&stays, &moves}, 0, kPrompt, true);
  uint32_t length = kPrompt;
  for (; wrong.empty() && length < kPrompt + 5; ++length) {
    wrong = play.Step({&stays, &moves}, length, 1, false);
  }
  if (wrong.empty()) wrong = play.Move(moves, length);
  for (; wrong.empty() && length < kPrompt + 25; ++length) {
    wrong = play.Step({&stays, &moves}, length, 1, false);
  }
  return wrong.empty() ? CompareScores(board, stays, moves, length) : wrong;
}

}  // namespace folio::model::testing
