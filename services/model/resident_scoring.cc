#include "services/model/resident_scoring.h"

namespace folio::model {

void ResidentScoring::Clear() {
  resident_.clear();
  unrotated_.clear();
}

void ResidentScoring::Add(const SlotTable& table, bool prompt) {
  if (table.score() == kernels::ScoreKind::kKeyDifference) {
    table.ListResident(resident_);
  } else {
    table.ListUnrotated(!prompt, unrotated_);
  }
}

void ResidentScoring::Run(const kernels::cpu::CpuOps& ops, kernels::cpu::ThreadPool& threads,
                          const kernels::cpu::RopeTable& rope,
                          const kernels::PoolView& pool) const {
  ops.ScoreResident(threads, resident_, pool);
  ops.ScoreUnrotated(threads, unrotated_, rope, pool);
}

}  // namespace folio::model
