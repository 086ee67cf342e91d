// ModelLine is the order of those that wait for pages, as CacheModel restates it, with plain maps
// and whole seconds.
#ifndef FOLIO_TESTS_FUZZ_MODEL_LINE_H_
#define FOLIO_TESTS_FUZZ_MODEL_LINE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "services/base/ids.h"
#include "services/base/steady_time.h"

namespace folio::cache {

class ModelLine {
 public:
  // A worker's next request, or a parked sequence of it.
  using Asker = std::pair<WorkerId, std::optional<SequenceId>>;
  struct Ask {
    SteadyTime due;
    std::string tenant;
    int64_t asked = 0;
    std::optional<int64_t> committed;  // since, or the worker had nothing to commit

    bool Counts(int64_t now) const {
      return committed.has_value() ? now == *committed : now - asked < 10;
    }
  };

  // Whether none of the others comes before it.
  bool IsFirst(const Asker& asker, const Ask& own, int64_t now) const {
    return std::none_of(asks_.begin(), asks_.end(), [&](const auto& one) {
      const auto& [other, ask] = one;
      if (!ask.Counts(now) || other == asker) return false;
      const bool both_parked = other.second.has_value() && asker.second.has_value();
      if (both_parked && other.first == asker.first) return false;  // its worker chose
      if (other.second.has_value() != asker.second.has_value()) return other.second.has_value();
      return std::tuple(Served(ask.tenant), ask.due, other) <
             std::tuple(Served(own.tenant), own.due, asker);
    });
  }
  // Whether the order would be another one if all were of one tenant.
  bool IsTurn(const Asker& asker, const Ask& own, int64_t now) const {
    ModelLine alike = *this;
    for (auto& [other, ask] : alike.asks_) ask.tenant = own.tenant;
    return alike.IsFirst(asker, own, now) != IsFirst(asker, own, now);
  }
  bool Waits(int64_t now) const {
    return std::any_of(asks_.begin(), asks_.end(),
                       [&](const auto& one) { return one.second.Counts(now); });
  }
  void Wait(const Asker& asker, Ask ask) { asks_[asker] = std::move(ask); }
  void Leave(const Asker& asker) { asks_.erase(asker); }
  void LeaveAll(WorkerId worker) {
    std::erase_if(asks_, [&](const auto& one) { return one.first.first == worker; });
  }
  void OnCommit(WorkerId worker, const std::string& tenant, uint64_t tokens, int64_t now) {
    // In parts of tokens, as many in one as FairTurns has.
    std::set<std::string> sharers = {tenant};
    for (const auto& [asker, ask] : asks_) {
      if (!asker.second.has_value() && ask.Counts(now)) sharers.insert(ask.tenant);
    }
    served_[tenant] = Served(tenant) + tokens * 65536;
    level_ += tokens * 65536 / sharers.size();
    for (auto& [asker, ask] : asks_) {
      const bool first = asker.first == worker && !ask.committed.has_value();
      if (first && ask.Counts(now)) ask.committed = now;
    }
  }

 private:
  uint64_t Served(const std::string& tenant) const {
    const auto it = served_.find(tenant);
    return it == served_.end() ? level_ : std::max(level_, it->second);
  }

  std::map<Asker, Ask> asks_;
  std::map<std::string, uint64_t> served_;  // of each tenant
  uint64_t level_ = 0;                      // of a tenant that was never seen
};

}  // namespace folio::cache

#endif  // FOLIO_TESTS_FUZZ_MODEL_LINE_H_
