// PoolMessage is how a journal names the pool of a test's coordinator.
#ifndef FOLIO_TESTS_MANAGER_POOL_MESSAGE_H_
#define FOLIO_TESTS_MANAGER_POOL_MESSAGE_H_

#include "folio/state/v1/journal.pb.h"
#include "services/cache/coordinator_options.h"
#include "services/manager/journal_messages.h"
#include "services/wire/layout.h"

namespace folio::manager {

inline state::JournalPool PoolMessage(const cache::CoordinatorOptions& options) {
  state::JournalPool pool;
  pool.set_pool_id("a pool");
  v1::ModelLayout* layout = pool.mutable_layout();
  layout->set_model("m");
  layout->set_fingerprint("f");
  wire::SetGeometry(options.geometry, layout);
  layout->set_data_type(v1::DATA_TYPE_BFLOAT16);
  pool.set_num_pages(options.num_pages.value());
  pool.add_rank_device("cpu");
  pool.add_rank_memory()->set_bytes(1);
  return pool;
}

}  // namespace folio::manager

#endif  // FOLIO_TESTS_MANAGER_POOL_MESSAGE_H_
