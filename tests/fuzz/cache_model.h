// CacheModel restates the coordinator's rules as simply as possible, with plain lists of pages and
// positions and everything recomputed each time. It shares only types with the coordinator.
//
// The coordinator chooses which free page it gives out. The model checks that it was free and that
// its generation grew by one.
#ifndef FOLIO_TESTS_FUZZ_CACHE_MODEL_H_
#define FOLIO_TESTS_FUZZ_CACHE_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "services/cache/inspector.h"

namespace folio::cache {

struct ModelLayer {
  PageList pages;
  std::vector<uint32_t> positions;  // of each resident token
};

struct ModelPlan {
  uint64_t epoch = 0;
  bool compact = false;
  std::vector<std::vector<uint32_t>> keep;    // compact: [layer]
  std::vector<uint32_t> spare;                // compact: [layer]
  std::vector<std::optional<uint32_t>> drop;  // else: [layer]
};

struct ModelSequence {
  WorkerId worker;  // the last one, of an orphan
  LeaseEpoch lease{1};
  std::string token;
  std::optional<int64_t> orphaned;  // since, in seconds
  policy::CacheConfig cache;
  uint64_t prompt = 0;
  uint64_t max_new = 0;
  uint64_t known = 0;  // ids in the record
  uint64_t logical = 0;
  bool compacted = false;
  uint64_t plans = 0;
  std::optional<ModelPlan> plan;
  std::vector<ModelLayer> layers;

  bool evicts() const { return cache.policy.spec().index() != 0; }
  bool synchronous() const { return cache.mode == policy::EvictionMode::kSynchronous; }
  uint64_t budget(size_t layer) const { return cache.layer_budget(layer).value(); }
  bool must_compact(size_t layer) const { return evicts() && prompt > budget(layer) && !compacted; }
  bool must_compact(const CacheGeometry& geometry) const {
    bool must = false;
    for (size_t layer = 0; layer < geometry.num_layers; ++layer) must |= must_compact(layer);
    return must;
  }
};

class CacheModel {
 public:
  // `board` is borrowed. An orphan waits for `orphan_seconds`.
  CacheModel(const CacheGeometry& geometry, uint32_t pages, const std::vector<float>* board,
             int64_t orphan_seconds);

  // The answer that a call should get. Nothing changes.
  absl::StatusCode ExpectOpen(const OpenRequest& request) const;
  absl::StatusCode ExpectCommit(const CommitRequest& request) const;
  absl::StatusCode ExpectAck(WorkerId worker, SequenceId id, LeaseEpoch lease,
                             PlanEpoch plan) const;
  absl::StatusCode ExpectClaim(const ClaimRequest& request) const;
  absl::StatusCode ExpectClose(WorkerId worker, SequenceId id, LeaseEpoch lease) const;

  // The call succeeded. The model follows, and returns an error in the answer or "".
  std::string DidOpen(const OpenRequest& request, const Opened& opened);
  std::string DidCommit(const CommitRequest& request, const Outcome& outcome);
  std::string DidAck(SequenceId id, const Outcome& outcome);
  std::string DidClaim(const ClaimRequest& request, const Claimed& claimed);
  void DidClose(SequenceId id);

  void AddWorker(WorkerId worker);
  // Any call in the worker's name, answered well or not.
  void Heard(WorkerId worker);
  void Fence(WorkerId worker, bool quiesced);
  // Lets time pass and returns whose lease is over, in order of id; they are fenced.
  std::vector<WorkerId> Expire(int64_t seconds);
  // The orphans that have waited long enough; they end.
  std::vector<SequenceId> EndExpiredOrphans();

  // The pages that decode filled, if a commit of `tokens` fills any.
  std::vector<PageRef> Filled(const ModelSequence& sequence, uint64_t tokens) const;
  // Tokens that fit the pages of the fullest layer.
  uint64_t Room(const ModelSequence& sequence) const;

  std::string CompareTotals(const PoolInfo& pool) const;
  std::string CompareSequence(const SequenceDetail& detail) const;

  bool HasOrphans() const;

  std::map<SequenceId, ModelSequence> sequences;
  enum class WorkerState { kLive, kFenced };
  std::map<WorkerId, WorkerState> workers;

 private:
  enum class PageState { kFree, kHeld, kQuarantined };
  struct Page {
    PageState state = PageState::kFree;
    uint32_t generation = 0;
    WorkerId writer;
  };

  // Ends a sequence; its pages are free, or quarantined for its last worker.
  void End(SequenceId id, bool quiesced);
  // The orphans that must end so that `request` fits. None if it fits already or never.
  std::vector<SequenceId> InTheWay(const OpenRequest& request) const;
  uint64_t FreeOfPromises() const;
  uint64_t PagesToOpen(const OpenRequest& request) const;
  std::string CompareClaim(const ModelSequence& sequence, const Claimed& claimed) const;
  uint64_t PagesFor(uint64_t tokens) const;
  uint64_t OpenPages(const ModelSequence& sequence) const;
  uint64_t Most(const ModelSequence& sequence, size_t layer, uint64_t resident) const;
  uint64_t Wanted(const ModelSequence& sequence, size_t layer, uint64_t resident) const;
  uint64_t Promised(const ModelSequence& sequence) const;
  uint64_t Count(PageState state) const;
  absl::StatusCode ExpectHeld(WorkerId worker, SequenceId id, LeaseEpoch lease) const;
  bool DecodeCommitFits(const ModelSequence& sequence, const CommitRequest& request) const;
  std::string TakePages(ModelSequence& sequence, const LayerPageLists& given,
                        const std::vector<uint64_t>& wanted);
  std::string TakeGrant(ModelSequence& sequence, const Outcome& outcome);
  std::string TakePlan(SequenceId id, ModelSequence& sequence, const Outcome& outcome);
  std::string TakeCompaction(const ModelSequence& sequence, const CompactAction& action,
                             ModelPlan* plan) const;
  std::string TakeDrop(const ModelSequence& sequence, const DropAction& action,
                       ModelPlan* plan) const;
  double TokenScore(PageRef page, uint32_t offset) const;
  std::vector<uint32_t> KeepInPrefill(const ModelSequence& sequence, size_t layer) const;
  uint32_t DropInDecode(const ModelSequence& sequence, const ModelLayer& layer) const;
  uint32_t DropByPolicy(const ModelSequence& sequence, size_t layer) const;
  void Free(PageRef page) { pages_[page.page.value()].state = PageState::kFree; }

  const CacheGeometry geometry_;
  const std::vector<float>* const board_;
  const int64_t orphan_seconds_;
  std::vector<Page> pages_;
  std::map<WorkerId, int64_t> heard_;  // seconds
  int64_t now_ = 0;
  SequenceId last_;
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_CACHE_MODEL_H_
