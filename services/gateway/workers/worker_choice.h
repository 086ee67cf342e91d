// ChooseWorker says which worker gets a request.
#ifndef FOLIO_SERVICES_GATEWAY_WORKERS_WORKER_CHOICE_H_
#define FOLIO_SERVICES_GATEWAY_WORKERS_WORKER_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace folio::gateway {

struct WorkerLoad {
  std::string address;
  bool usable = true;    // it serves, and has the model
  bool standby = false;  // it is asked only if no other is usable
  uint32_t running = 0;  // requests that it has from this gateway
};

// Returns the index of the usable worker with the fewest requests, or nothing if none is usable.
// If several have as few, `turn` decides, which grows by one with each choice.
//
// A request with a `key` goes to the worker that its key belongs to, by rendezvous hashing: when a
// worker comes or goes, only the keys that belong to it move. But a worker that would then have
// more than its share, and a quarter of it and one request more, is passed over for the next one
// (consistent hashing with bounded loads, arXiv 1608.01350). Pure.
std::optional<size_t> ChooseWorker(absl::Span<const WorkerLoad> workers, absl::string_view key,
                                   uint64_t turn);

}  // namespace folio::gateway

#endif  // FOLIO_SERVICES_GATEWAY_WORKERS_WORKER_CHOICE_H_
