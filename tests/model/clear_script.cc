#include "tests/model/clear_script.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace folio::model::testing {
namespace {

constexpr uint32_t kPrompt = 5;
constexpr std::byte kUsed{0x3c};

class Clearing {
 public:
  Clearing(Executor& executor, TestPool& pool)
      : executor_(executor),
        view_(pool.view()),
        geometry_(view_.geometry),
        before_(pool.Take(1)),
        own_(pool.Take(3)),
        behind_(pool.Take(1)) {}

  void Use(const LayerPageLists& pages) {
    for (const PageList& layer : pages) {
      for (const PageRef& page : layer) {
        std::memset(static_cast<void*>(view_.keys(page.page.value())), static_cast<int>(kUsed),
                    geometry_.page_bytes());
      }
    }
  }

  std::string Step(SequenceSlot slot, uint32_t first, uint32_t tokens, bool prompt) {
    StepSegment segment;
    segment.slot = slot;
    segment.prompt = prompt;
    segment.first_position = Position(first);
    for (uint32_t at = 0; at < tokens; ++at) segment.tokens.emplace_back(at + 3);
    return executor_.Collect(executor_.Enqueue({{std::move(segment)}})).status.ToString();
  }

  // Rows of one block from token `first` on all have `value`, or none has.
  std::string Expect(const LayerPageLists& pages, uint32_t block, uint32_t first,
                     std::byte value) const {
    const size_t row = geometry_.head_dim * sizeof(kernels::bf16);
    for (size_t layer = 0; layer < pages.size(); ++layer) {
      const auto* page =
          reinterpret_cast<const std::byte*>(view_.keys(pages[layer][block].page.value()));
      for (uint32_t head = 0; head < 2 * geometry_.num_kv_heads; ++head) {
        for (uint32_t token = first; token < geometry_.page_tokens; ++token) {
          const std::byte* at = page + (head * geometry_.page_tokens + token) * row;
          if (std::all_of(at, at + row, [&](std::byte one) { return one == value; })) continue;
          return absl::StrCat("layer ", layer, ", block ", block, ", head ", head, ", token ",
                              token, " has ", static_cast<int>(*at), " and not ",
                              static_cast<int>(value));
        }
      }
    }
    return "";
  }

  // Both `slot`s have the pages `own_`. The next step writes its first token at `first`.
  std::string Play(SequenceSlot slot, uint32_t first, uint32_t tokens) {
    std::string wrong = Step(slot, first, tokens, /*prompt=*/true);
    if (wrong != "OK") return wrong;
    const uint32_t end = first + tokens;
    wrong = Expect(own_, first / geometry_.page_tokens, end % geometry_.page_tokens, std::byte{0});
    if (wrong.empty()) wrong = Expect(own_, 2, 0, std::byte{0});
    if (wrong.empty()) wrong = Expect(before_, 0, 0, kUsed);
    if (wrong.empty()) wrong = Expect(behind_, 0, 0, kUsed);
    if (!wrong.empty()) return wrong;
    // Once is enough.
    Use({{own_[0][2]}});
    wrong = Step(slot, end, 1, /*prompt=*/false);
    if (wrong != "OK") return wrong;
    return Expect({{own_[0][2]}}, 0, 0, kUsed);
  }

  std::string Opened() {
    const SequenceSlot slot = executor_.tables().Acquire(kernels::ScoreKind::kNone);
    executor_.tables().Extend(slot, own_, /*clear=*/true);
    std::string wrong = Play(slot, 0, kPrompt);
    executor_.tables().Release(slot);
    return wrong;
  }

  // The page of the tokens that are there is left alone.
  std::string Claimed() {
    const SequenceSlot slot = executor_.tables().Acquire(kernels::ScoreKind::kNone);
    std::vector<ClaimedLayer> layers;
    for (const PageList& layer : own_) {
      layers.push_back({layer, {{Position(0), Position(geometry_.page_tokens)}}, {}});
    }
    executor_.tables().Restore(slot, layers, /*clear=*/true);
    std::string wrong = Play(slot, geometry_.page_tokens, kPrompt);
    if (wrong.empty()) wrong = Expect(own_, 0, 0, kUsed);
    executor_.tables().Release(slot);
    return wrong;
  }

  // Without the word of the manager nothing is cleared.
  std::string Left() {
    const SequenceSlot slot = executor_.tables().Acquire(kernels::ScoreKind::kNone);
    executor_.tables().Extend(slot, own_);
    std::string wrong = Step(slot, 0, kPrompt, /*prompt=*/true);
    if (wrong == "OK") wrong = Expect(own_, 0, kPrompt, kUsed);
    executor_.tables().Release(slot);
    return wrong;
  }

  std::string All() {
    for (const auto play : {&Clearing::Opened, &Clearing::Claimed, &Clearing::Left}) {
      for (const LayerPageLists* pages : {&before_, &own_, &behind_}) Use(*pages);
      std::string wrong = (this->*play)();
      if (!wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  Executor& executor_;
  const kernels::PoolView& view_;
  const CacheGeometry& geometry_;
  const LayerPageLists before_, own_, behind_;
};

}  // namespace

std::string PlayClearing(Executor& executor, TestPool& pages) {
  return Clearing(executor, pages).All();
}

}  // namespace folio::model::testing
