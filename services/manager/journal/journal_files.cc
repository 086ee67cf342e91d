#include "services/manager/journal/journal_files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/manager/journal/frames.h"
#include "services/runtime/logging.h"

namespace folio::manager {
namespace {

// A disk that is full stays so for a while.
constexpr absl::Duration kTryAgainAfter = absl::Seconds(1);

}  // namespace

JournalFiles::JournalFiles(std::unique_ptr<StateDirectory> directory, size_t least_bytes)
    : directory_(std::move(directory)),
      least_bytes_(least_bytes),
      acknowledged_(directory_->path()) {
  const std::vector<uint64_t> before = directory_->Files();
  if (before.empty()) return;
  number_ = before.back();
  before_bytes_ = directory_->SizeOf(number_);
  const auto mark = acknowledged_.Read();
  if (!mark.ok() || !mark->has_value() || (*mark)->number != number_) return;
  before_bytes_ = std::max(before_bytes_, (*mark)->bytes);
}

void JournalFiles::Append(absl::string_view entry) {
  absl::MutexLock lock(&mu_);
  if (!counts_.failed.ok()) return;
  AppendFrame(entry, &waiting_);
  ++counts_.entries;
}

absl::Status JournalFiles::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(file_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", directory_->FileOf(number_)));
    }
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return absl::OkStatus();
}

void JournalFiles::Fail(const absl::Status& why) {
  file_.Reset();
  for (const uint64_t number : directory_->Files()) directory_->Remove(number);
  absl::MutexLock lock(&mu_);
  if (counts_.failed.ok()) {
    log::Error("the journal failed and is removed, so sequences would not outlive this manager now",
               {{"reason", why}, {"fix", "make room on the disk, and it begins again"}});
  }
  ++counts_.failures;
  counts_.failed = why;
  counts_.file_bytes = 0;
  failed_at_ = SteadyNow();
  waiting_.clear();
}

void JournalFiles::Flush() {
  absl::MutexLock lock(&file_mu_);
  FlushLocked();
}

void JournalFiles::FlushLocked() {
  std::string bytes;
  {
    absl::MutexLock lock(&mu_);
    bytes.swap(waiting_);
  }
  if (bytes.empty() || !file_.valid()) return;
  Acknowledged::Mark mark = {.number = number_};
  absl::Status status = Write(bytes);
  if (status.ok()) {
    absl::MutexLock lock(&mu_);
    counts_.bytes += bytes.size();
    counts_.file_bytes += bytes.size();
    mark.bytes = counts_.file_bytes;
  }
  if (status.ok()) status = acknowledged_.Store(mark);
  if (!status.ok()) Fail(status);
}

bool JournalFiles::wants_new_file() const {
  absl::MutexLock lock(&mu_);
  if (!counts_.failed.ok()) return SteadyNow() - failed_at_ >= kTryAgainAfter;
  return counts_.file_bytes + waiting_.size() > std::max(least_bytes_, 4 * whole_bytes_);
}

void JournalFiles::BeginFile(absl::FunctionRef<std::string(const FileBefore& before)> head) {
  absl::MutexLock file_lock(&file_mu_);
  FlushLocked();
  const FileBefore before = {.exists = !directory_->Files().empty(),
                             .bytes = file_.valid() ? counts().file_bytes : before_bytes_};
  const std::string frames = head(before);
  auto file = directory_->Create(number_ + 1);
  if (!file.ok()) return Fail(file.status());
  ++number_;
  file_ = *std::move(file);
  absl::MutexLock lock(&mu_);
  // Frames since the flush may be in the new file, because it repeats everything.
  waiting_.insert(0, frames);
  counts_.file_bytes = 0;
  ++counts_.files;
  if (counts_.failed.ok()) return;
  log::Info("the journal begins again", {{"file", directory_->FileOf(number_)}});
  counts_.failed = absl::OkStatus();
}

void JournalFiles::EndFile() {
  absl::MutexLock file_lock(&file_mu_);
  FlushLocked();
  if (!file_.valid()) return;
  for (const uint64_t number : directory_->Files()) {
    if (number < number_) directory_->Remove(number);
  }
  absl::MutexLock lock(&mu_);
  whole_bytes_ = counts_.file_bytes;
}

JournalCounts JournalFiles::counts() const {
  absl::MutexLock lock(&mu_);
  return counts_;
}

}  // namespace folio::manager
