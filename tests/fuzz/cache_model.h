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
#include "tests/cache/single_step.h"
#include "tests/fuzz/model_line.h"
#include "tests/fuzz/model_sequence.h"

namespace folio::cache {

class CacheModel {
 public:
  // `board` is borrowed. The orphan's grace begins when it can be claimed, and it waits longer.
  CacheModel(const CacheGeometry& geometry, uint32_t pages, const std::vector<float>* board,
             int64_t orphan_seconds, int64_t grace_seconds, Admission admission, uint32_t slots);

  // The answer that a call should get. Nothing changes.
  absl::StatusCode ExpectOpen(const OpenRequest& request) const;
  absl::StatusCode ExpectCommit(const CommitRequest& request) const;
  absl::StatusCode ExpectAck(WorkerId worker, SequenceId id, LeaseEpoch lease,
                             PlanEpoch plan) const;
  absl::StatusCode ExpectClaim(const ClaimRequest& request) const;
  absl::StatusCode ExpectClose(WorkerId worker, SequenceId id, LeaseEpoch lease) const;
  absl::StatusCode ExpectPark(WorkerId worker, SequenceId id, LeaseEpoch lease) const;
  absl::StatusCode ExpectUnpark(WorkerId worker, SequenceId id, LeaseEpoch lease) const;

  // The call succeeded. The model follows, and returns an error in the answer or "".
  std::string DidOpen(const OpenRequest& request, const Opened& opened);
  std::string DidCommit(const CommitRequest& request, const Outcome& outcome);
  std::string DidAck(SequenceId id, const Outcome& outcome);
  std::string DidClaim(const ClaimRequest& request, const Claimed& claimed);
  void DidClose(SequenceId id);
  bool DidPark(SequenceId id, bool swapped);  // returns whether the contents are to be kept
  std::string DidUnpark(SequenceId id, const Unparked& unparked);
  std::string DidAttend(WorkerId worker, const Attention& attention);
  // The call found no room. The asker keeps its place.
  bool DidNotOpen(const OpenRequest& request);  // whether it waits
  void DidNotUnpark(SequenceId id, WorkerId worker);
  void DidNotClaim(const ClaimRequest& request);
  void AddWorker(WorkerId worker);
  void Heard(WorkerId worker);  // in any call, answered well or not
  void Fence(WorkerId worker, bool quiesced);
  void Restart(bool has_contents);  // a next manager, with the contents of the pages or without
  // Lets time pass and returns whose lease is over, in order of id; they are fenced.
  std::vector<WorkerId> Expire(int64_t seconds);
  std::vector<SequenceId> EndExpiredOrphans();  // those that have waited long enough
  std::vector<PageRef> Filled(const ModelSequence& sequence, uint64_t tokens) const;  // by decode
  uint64_t Room(const ModelSequence& sequence) const;  // tokens, in the fullest layer
  std::string CompareTotals(const PoolInfo& pool) const;
  std::string CompareSequence(const SequenceDetail& detail) const;
  bool HasOrphans() const;
  std::map<SequenceId, ModelSequence> sequences;
  enum class WorkerState { kLive, kFenced };
  std::map<WorkerId, WorkerState> workers;
  std::vector<SequenceId> given_up;  // lost in vain while this manager ran
  // Sequences that grew again before, answers that tenants' turns change, pages behind windows.
  uint64_t regained = 0, turns = 0, windows_moved = 0;
  uint64_t idle = 0;  // sequences asked back because the steps of their workers left them out
  std::map<WorkerId, int64_t> in_flight;  // age of the worker's oldest step, as it told last

 private:
  friend class ModelSteering;
  friend class ModelTenants;
  enum class PageState { kFree, kHeld, kQuarantined };
  struct Page {
    PageState state = PageState::kFree;
    uint32_t generation = 0;
    WorkerId writer;
  };
  // Its pages are free, or quarantined for its last worker. It is computed again.
  void LosePages(ModelSequence& sequence, bool quiesced);
  void End(SequenceId id, bool quiesced);
  // The orphans that must end so that so many pages are free. None if they are, or cannot be.
  std::vector<SequenceId> InTheWay(uint64_t wanted) const;
  void EndAll(const std::vector<SequenceId>& orphans);
  uint64_t FreeOfPromises() const;
  uint64_t WorstCase(const ModelSequence& sequence) const;
  ModelSequence Opening(const OpenRequest& request) const;
  using Asker = ModelLine::Asker;
  // Whether the sequence gets pages now, and the orphans that end for it.
  bool Admits(const ModelSequence& sequence, const Asker& asker,
              std::vector<SequenceId>* ended) const;
  bool starving() const;
  ModelLine::Ask AskOf(const ModelSequence& sequence) const;
  void Relieve(std::vector<SequenceId>* ended);
  uint64_t FreeSlots() const;
  std::string TakeOffer(SequenceId id, const std::vector<SwapOffer>& offers, size_t* next);
  void SwapOut(ModelSequence& sequence);
  std::string CompareLayers(const ModelSequence& sequence,
                            const std::vector<LayerTableInfo>& layers) const;
  std::string CompareSwap(const ModelSequence& sequence, const Unparked& unparked) const;
  std::string CompareSlots(const PoolInfo& pool) const;
  std::string CompareClaim(const ModelSequence& sequence, const Claimed& claimed) const;
  uint64_t PagesFor(uint64_t tokens) const;
  uint64_t OpenPages(const ModelSequence& sequence, size_t layer) const;
  uint64_t Most(const ModelSequence& sequence, size_t layer, uint64_t resident) const;
  uint64_t Wanted(const ModelSequence& sequence, size_t layer, uint64_t resident) const;
  uint64_t Due(const ModelSequence& sequence, size_t layer) const;
  uint64_t DueInPrompt(const ModelSequence& sequence, uint64_t resident) const;
  policy::Compaction Chosen(const OpenRequest& request) const;  // by the pool if need be
  uint64_t Lacking(const ModelSequence& sequence) const;
  uint64_t ToPromise(const ModelSequence& sequence) const;
  uint64_t Promised(const ModelSequence& sequence) const;
  uint64_t Count(PageState state) const;
  absl::StatusCode ExpectHeld(WorkerId worker, SequenceId id, LeaseEpoch lease) const;
  bool DecodeCommitFits(const ModelSequence& sequence, const CommitRequest& request) const;
  std::string TakePages(ModelSequence& sequence, const LayerPageLists& given,
                        const std::vector<uint64_t>& wanted);
  // `promised` is what the sequence was promised before, which is part of `available`.
  std::string TakeGrant(ModelSequence& sequence, const LayerPageLists& granted, uint64_t promised);
  void MoveWindows(ModelSequence& sequence, uint64_t length);
  bool Widen(ModelSequence& sequence, const WorkerAbilities& abilities);
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
  const int64_t orphan_seconds_, grace_seconds_;
  const Admission admission_;
  const uint32_t swap_slots_;
  std::map<WorkerId, uint64_t> quarantined_slots_;
  std::vector<Page> pages_;
  ModelLine line_;
  bool shortage_ = false;
  std::map<WorkerId, int64_t> heard_;  // seconds
  int64_t now_ = 0;
  SequenceId last_;
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_CACHE_MODEL_H_
