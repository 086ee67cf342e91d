#include "services/manager/served_pool.h"

#include <algorithm>
#include <utility>

#include "services/cache/inspector.h"

namespace folio::manager {
namespace {

RegistryOptions With(RegistryOptions options, ManagerJournal* journal, Recovered* recovered) {
  options.journal = journal;
  options.recovered = recovered;
  return options;
}

}  // namespace

ServedPool::ServedPool(PoolName name, RegistryOptions registry,
                       std::unique_ptr<ManagerJournal> journal, Recovered* recovered)
    : name_(std::move(name)),
      events_(registry.event_log),
      journal_(std::move(journal)),
      quotas_before_(recovered == nullptr ? cache::QuotasByTenant() : recovered->quotas),
      registry_(With(std::move(registry), journal_.get(), recovered)) {
  if (journal_ == nullptr) return;
  // The registry has told all that is left of the manager before.
  journal_->EndFile();
  journal_report_.emplace(&journal_->files(), events_);
}

absl::StatusOr<std::unique_ptr<ServedPool>> ServedPool::Open(PoolName name,
                                                             const std::string& state_dir,
                                                             const RegistryOptions& registry) {
  if (state_dir.empty()) {
    return std::unique_ptr<ServedPool>(
        new ServedPool(std::move(name), registry, nullptr, registry.recovered));
  }
  auto directory = StateDirectory::Open(state_dir);
  if (!directory.ok()) return directory.status();
  auto recovered = Recover(**directory);
  if (!recovered.ok()) return recovered.status();
  auto journal = std::make_unique<ManagerJournal>(*std::move(directory), *recovered);
  return std::unique_ptr<ServedPool>(
      new ServedPool(std::move(name), registry, std::move(journal), &*recovered));
}

ServedPool::~ServedPool() {
  End();
  Flush();
}

void ServedPool::Start(absl::Duration period, absl::Duration limit,
                       std::function<void(bool)> report) {
  watch_.emplace(limit, std::move(report));
  watch_->Start();
  thread_ = std::thread([this, period] { Loop(period); });
}

void ServedPool::End() {
  if (watch_.has_value()) watch_->Stop();
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void ServedPool::Loop(absl::Duration period) {
  while (!stop_.WaitFor(period)) {
    if (journal_report_.has_value()) journal_report_->Look();
    registry_.ExpireLeases();
    watch_->OnTurn();
  }
}

void ServedPool::Flush() {
  if (journal_ != nullptr) journal_->files().Flush();
}

uint32_t ServedPool::SequencesToAwait() const {
  if (journal_ == nullptr) return registry_.RunningSequences();
  const std::shared_ptr<const Pool> pool = registry_.pool();
  if (pool == nullptr) return 0;
  const auto sequences = cache::Inspector(pool->coordinator()).sequences();
  return static_cast<uint32_t>(
      std::count_if(sequences.begin(), sequences.end(),
                    [](const cache::SequenceInfo& one) { return !one.resumable; }));
}

}  // namespace folio::manager
