// The GPUs of a worker that is built without CUDA: none.
#include "services/worker/device/gpu.h"

namespace folio::worker {
namespace {

class NoGpus final : public Gpus {
 public:
  absl::StatusOr<std::vector<std::string>> Uuids() override { return Missing(); }
  absl::StatusOr<std::unique_ptr<Gpu>> Open(int, uint64_t) override { return Missing(); }

 private:
  static absl::Status Missing() {
    return absl::FailedPreconditionError(
        "this folio-worker was built without CUDA; build it with -DFOLIO_CUDA=ON");
  }
};

}  // namespace

std::unique_ptr<Gpus> BuiltInGpus() { return std::make_unique<NoGpus>(); }

}  // namespace folio::worker
