#include "services/cache/page_census.h"

#include <algorithm>

#include "services/cache/decision_view.h"
#include "services/policy/score_rows.h"

namespace folio::cache {

std::vector<SequenceId> PageCensus::Sequences() const {
  std::vector<SequenceId> ids;
  absl::MutexLock lock(&coordinator_.mu_);
  ids.reserve(coordinator_.sequences_.size());
  for (const auto& [id, sequence] : coordinator_.sequences_) ids.push_back(id);
  return ids;
}

void PageCensus::AddStates(std::vector<PageFacts>& pages) const {
  constexpr size_t kAtATime = 65536;  // about 50 us
  for (size_t begin = 0; begin < pages.size(); begin += kAtATime) {
    const size_t end = std::min(begin + kAtATime, pages.size());
    absl::MutexLock lock(&coordinator_.mu_);
    for (size_t page = begin; page < end; ++page) {
      pages[page].state = coordinator_.pool_.entries_[page].state;
    }
  }
}

void PageCensus::AddPagesOf(SequenceId id, std::vector<PageFacts>& pages) const {
  const Coordinator& c = coordinator_;
  absl::MutexLock lock(&c.mu_);
  const absl::StatusOr<Sequence*> found = c.Find(id);
  if (!found.ok()) return;
  const SequenceRecord& record = (*found)->record();
  const ScoreBoard board = c.board();
  const DecisionView view(record, board);
  for (size_t layer = 0; layer < record.layers.size(); ++layer) {
    const uint32_t scored = view.ScoredPages(layer).value();
    uint32_t block = 0;
    for (const PageRef page : record.layers[layer].pages()) {
      pages[page.page.value()] = {PageState::kHeld, block++ < scored, static_cast<uint16_t>(layer),
                                  id};
    }
  }
}

std::vector<PageFacts> PageCensus::Count() const {
  std::vector<PageFacts> pages(coordinator_.options_.num_pages.value());
  AddStates(pages);
  for (const SequenceId id : Sequences()) AddPagesOf(id, pages);
  return pages;
}

float PageCensus::MeanScore(PageId page) const {
  const ScoreBoard board = coordinator_.board();
  const float* const scores = board.scores + size_t{page.value()} * board.page_floats;
  return policy::TokenScore({scores, board.page_floats});
}

}  // namespace folio::cache
