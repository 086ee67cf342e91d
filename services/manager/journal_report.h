// These classes tell people how journals fare: JournalMetrics gives Prometheus what was written,
// and JournalReport leaves an event when a journal fails and when it works again.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_REPORT_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_REPORT_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <utility>
#include <vector>

#include "services/manager/journal/journal_files.h"
#include "services/manager/manager_journal.h"
#include "services/manager/pool_events.h"

namespace folio::manager {

// All journals of a manager together. Thread-safe.
class JournalMetrics : public prometheus::Collectable {
 public:
  // Borrows them. There is at least one.
  explicit JournalMetrics(std::vector<ManagerJournal*> journals) : journals_(std::move(journals)) {}

  // docs/monitoring.md explains each metric.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::vector<ManagerJournal*> journals_;
};

// For one thread, the one in which a failed journal begins again.
class JournalReport {
 public:
  // Borrows the files.
  JournalReport(const JournalFiles* files, PoolEvents events)
      : files_(files), events_(std::move(events)) {}

  // Leaves an event if the journal has failed or begun again since the last call. None is missed if
  // a call comes before each attempt to begin again.
  void Look();

 private:
  const JournalFiles* const files_;
  const PoolEvents events_;
  bool failed_ = false;  // at the last look
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_REPORT_H_
