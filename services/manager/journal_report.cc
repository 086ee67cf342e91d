#include "services/manager/journal_report.h"

#include <string>

#include "services/metrics/families.h"

namespace folio::manager {

std::vector<prometheus::MetricFamily> JournalMetrics::Collect() const {
  JournalCounts counts;
  for (ManagerJournal* journal : journals_) {
    const JournalCounts one = journal->files().counts();
    counts.failed.Update(one.failed);
    counts.file_bytes += one.file_bytes;
    counts.entries += one.entries;
    counts.bytes += one.bytes;
    counts.files += one.files;
    counts.failures += one.failures;
  }
  std::vector<prometheus::MetricFamily> families;
  const auto gauge = [&](const char* name, const char* help, double value) {
    families.push_back(metrics::GaugeFamily(name, help, {{value, {}}}));
  };
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    families.push_back(metrics::CounterFamily(name, help, {{static_cast<double>(value), {}}}));
  };
  gauge("folio:journal_failed",
        "1 while the journal cannot be written, so that sequences would not outlive the manager, "
        "else 0.",
        counts.failed.ok() ? 0 : 1);
  gauge("folio:journal_bytes", "Size of the journal's newest file, in bytes.",
        static_cast<double>(counts.file_bytes));
  counter("folio:journal_entries_total",
          "Entries of the journal, without those that repeat what is known at the beginning of a "
          "file.",
          counts.entries);
  counter("folio:journal_written_bytes_total", "Bytes written to the journal's files.",
          counts.bytes);
  counter("folio:journal_files_total",
          "Files of the journal that were begun: at the start, in place of one that had grown, and "
          "after a failure.",
          counts.files);
  counter("folio:journal_failures_total",
          "Writes that failed, and files that could not be begun. The journal is tried again each "
          "second.",
          counts.failures);
  return families;
}

void JournalReport::Look() {
  const absl::Status status = files_->counts().failed;
  if (status.ok() != failed_) return;
  failed_ = !status.ok();
  if (failed_) {
    events_.Append({.kind = EventKind::kJournalFailed,
                    .code = status.code(),
                    .text = std::string(status.message())});
  } else {
    events_.Append(
        {.kind = EventKind::kJournalResumed, .text = "sequences would outlive this manager again"});
  }
}

}  // namespace folio::manager
