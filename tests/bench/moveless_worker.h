// MovelessWorker does all that a worker does towards the manager and nothing else: it opens
// sequences, writes scores, commits tokens and acknowledges plans. No model runs and no token
// moves, so what is left to measure is the manager. Scores are random.
#ifndef FOLIO_TESTS_BENCH_MOVELESS_WORKER_H_
#define FOLIO_TESTS_BENCH_MOVELESS_WORKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "folio/v1/types.pb.h"
#include "services/base/clock.h"
#include "services/base/session_types.h"
#include "services/cache/observer.h"
#include "services/manager/manager_journal.h"
#include "services/manager/pool.h"
#include "services/manager/session_translator.h"
#include "services/worker/pool/host_mapping.h"

namespace folio::bench {

// The manager's time for one request.
struct ManagerTime {
  absl::Duration whole;
  absl::Duration deciding;  // the part in which policies choose
};

// Thread-compatible.
class MovelessWorker {
 public:
  // A pool with room for `sequences` of `context` tokens that are held to the budget of `cache`.
  // The pages are small, because none is read, but the score board is that of the shape. The
  // manager keeps a journal in `state_dir`, or none if that is empty.
  static absl::StatusOr<std::unique_ptr<MovelessWorker>> Create(
      const CacheGeometry& shape, uint32_t sequences, uint32_t context,
      const v1::CacheOptions& cache, uint32_t decision_threads, const std::string& state_dir);

  // Opens the next sequence, and commits and compacts its prompt. The time is that of the commit
  // that ends the prompt and of the acknowledgement.
  absl::StatusOr<ManagerTime> Prompt();
  // Each of the first `count` sequences decodes a token.
  absl::StatusOr<ManagerTime> Step(uint32_t count);

  // A digest of all plans so far, to compare two builds by what they decided.
  uint64_t digest() const { return digest_; }

 private:
  struct Sequence {
    SequenceId id;
    LeaseEpoch lease_epoch;
    uint32_t length = 0;
    LayerPageLists tables;
    std::vector<uint32_t> resident;  // [layer]
    std::optional<PlanEpoch> plan;   // to be acknowledged with the next request
  };
  class DecidingTime final : public cache::CoordinatorObserver {
   public:
    void OnDecided(const std::string&, absl::Duration took) override { sum_ += took; }
    absl::Duration Take() { return std::exchange(sum_, absl::ZeroDuration()); }

   private:
    absl::Duration sum_;
  };

  MovelessWorker(const CacheGeometry& shape, uint32_t context, std::string cache);
  absl::StatusOr<SessionReply> Ask(SessionRequest request, ManagerTime* time);
  // Random scores for rows [begin, end) of a page, in one channel or in both.
  void WriteRows(PageRef page, uint32_t begin, uint32_t end, uint32_t channels);
  // The scores of a token that is about to be appended, or of the page that it fills.
  void WriteScores(const Sequence& sequence, size_t layer);
  CommitTokens Append(Sequence& sequence);
  void Apply(const Plan& plan, Sequence& sequence);
  absl::Status Take(const SessionReply& reply);

  const CacheGeometry shape_;
  const uint32_t context_;
  const std::string cache_;  // serialised
  RealClock clock_;
  DecidingTime deciding_;
  std::unique_ptr<manager::ManagerJournal> journal_;  // or null
  std::unique_ptr<manager::Pool> pool_;
  std::unique_ptr<worker::SharedMapping> board_;
  std::unique_ptr<manager::SessionTranslator> session_;
  std::vector<Sequence> sequences_;
  ScoreNeed scores_, prompt_scores_;
  std::minstd_rand random_{1};
  uint64_t step_ = 0;
  uint64_t digest_ = 14695981039346656037U;
};

}  // namespace folio::bench

#endif  // FOLIO_TESTS_BENCH_MOVELESS_WORKER_H_
