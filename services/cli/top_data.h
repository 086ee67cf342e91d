// Snapshot is what `folioctl top` knows at one moment, and TopData makes rates of several of them.
#ifndef FOLIO_SERVICES_CLI_TOP_DATA_H_
#define FOLIO_SERVICES_CLI_TOP_DATA_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "folio/v1/admin.pb.h"
#include "services/base/steady_time.h"
#include "services/client/admin_client.h"

namespace folio::cli {

struct Snapshot {
  SteadyTime when;
  std::string date;  // the time of day
  folio::v1::GetManagerResponse manager;
  folio::v1::ListPoolsResponse pools;
  folio::v1::ListSequencesResponse sequences;
  folio::v1::ListTenantsResponse tenants;
  std::vector<folio::v1::PageRun> pages;
  uint64_t evicted_pages = 0;  // since the snapshot before
  uint64_t parked = 0;         // sequences that gave their pages back since then
  uint64_t newest_event = 0;
};

// Per second, over the last few snapshots.
struct Rates {
  double prompt_tokens = 0;
  double decoded_tokens = 0;
  double evicted_pages = 0;
  double parked = 0;
  std::map<uint64_t, double> by_sequence;  // tokens of each sequence that was there before
};

// Thread-compatible.
class TopData {
 public:
  // Asks the manager for everything, and adds it. The error of the first call that failed.
  absl::Status Refresh(client::AdminClient& client, const client::CallOptions& call);
  // Adds a snapshot that was made elsewhere.
  void Add(Snapshot snapshot);

  // Precondition: there is a snapshot.
  const Snapshot& now() const { return snapshots_.back(); }
  bool empty() const { return snapshots_.empty(); }
  const Rates& rates() const { return rates_; }

 private:
  // Evictions and parkings since the newest snapshot, from the manager's events.
  static absl::Status CountEvents(client::AdminClient& client, const client::CallOptions& call,
                                  bool first, Snapshot* snapshot);
  Rates ComputeRates() const;

  std::deque<Snapshot> snapshots_;  // those before the newest one without their pages
  Rates rates_;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_TOP_DATA_H_
