// JournalReport tells people how the journal fares: it gives Prometheus what was written, and it
// leaves an event when the journal fails and when it works again.
#ifndef FOLIO_SERVICES_MANAGER_JOURNAL_REPORT_H_
#define FOLIO_SERVICES_MANAGER_JOURNAL_REPORT_H_

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <vector>

#include "services/manager/event_log.h"
#include "services/manager/journal/journal_files.h"

namespace folio::manager {

// Collect is thread-safe. Look is for one thread, the one in which a failed journal begins again.
class JournalReport : public prometheus::Collectable {
 public:
  // Borrows both.
  JournalReport(const JournalFiles* files, EventLog* event_log)
      : files_(files), event_log_(event_log) {}

  // docs/monitoring.md explains each metric.
  std::vector<prometheus::MetricFamily> Collect() const override;
  // Leaves an event if the journal has failed or begun again since the last call. None is missed if
  // a call comes before each attempt to begin again.
  void Look();

 private:
  const JournalFiles* const files_;
  EventLog* const event_log_;
  bool failed_ = false;  // at the last look
};

}  // namespace folio::manager

#endif  // FOLIO_SERVICES_MANAGER_JOURNAL_REPORT_H_
