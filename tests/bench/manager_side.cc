// The two managers a ServingHarness can have.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "services/base/clock.h"
#include "services/cache/inspector.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/pool.h"
#include "services/worker/link/grpc_manager_link.h"
#include "services/worker/pool/pool_attachment.h"
#include "tests/bench/serving_harness.h"
#include "tests/bench/timed_link.h"
#include "tests/testing/in_process_link.h"

namespace folio::bench {

namespace {

class ProcessSide final : public ManagerSide {
 public:
  static absl::StatusOr<std::unique_ptr<ManagerSide>> Start(const folio::v1::ModelLayout& layout,
                                                            uint64_t pool_bytes,
                                                            const std::string& binary) {
    std::unique_ptr<ProcessSide> side(new ProcessSide());
    char directory[] = "/tmp/folio-bench.XXXXXX";
    if (mkdtemp(directory) == nullptr)
      return absl::InternalError("cannot make a temporary directory");
    side->directory_ = directory;
    const std::string address = absl::StrCat("unix:", side->directory_, "/manager.sock");
    const std::string listen = absl::StrCat("--listen=", address);
    const std::string bytes = absl::StrCat("--pool_bytes=", pool_bytes);
    side->pid_ = fork();
    if (side->pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);  // the program may exit on an error
      execl(binary.c_str(), binary.c_str(), listen.c_str(), bytes.c_str(), "--log_level=warning",
            nullptr);
      _exit(127);
    }
    const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
    auto attached = worker::AttachWithRetry(channel, {"bench"}, {&layout}, absl::Seconds(20),
                                            [] { return false; });
    if (!attached.ok()) return attached.status();
    side->attachment_ = *std::move(attached);
    side->link_ = std::make_unique<worker::GrpcManagerLink>(channel, side->attachment_->session(),
                                                            [] { return StepProgress(); });
    return side;
  }
  ~ProcessSide() override {
    link_.reset();
    if (pid_ > 0) {
      kill(pid_, SIGTERM);
      waitpid(pid_, nullptr, 0);
    }
    if (!directory_.empty()) std::filesystem::remove_all(directory_);
  }

  const kernels::PoolView& pool() const override { return attachment_->view(); }
  worker::ManagerLink* link() override { return link_.get(); }

 private:
  ProcessSide() = default;

  std::string directory_;
  pid_t pid_ = -1;
  std::unique_ptr<worker::PoolAttachment> attachment_;
  std::unique_ptr<worker::GrpcManagerLink> link_;
};

class InProcessSide final : public ManagerSide {
 public:
  static absl::StatusOr<std::unique_ptr<ManagerSide>> Start(const folio::v1::ModelLayout& layout,
                                                            uint64_t pool_bytes) {
    std::unique_ptr<InProcessSide> side(new InProcessSide());
    auto pool = manager::Pool::Create(layout, manager::HostMemory(), {.bytes = pool_bytes},
                                      {.lease_ttl = absl::Hours(1)}, {.clock = &side->clock_});
    if (!pool.ok()) return pool.status();
    side->pool_ = *std::move(pool);
    const manager::PoolExport& memory = side->pool_->memory();
    auto pages = worker::SharedMapping::Map(memory.pool_fd(), memory.pool_bytes(), "pool");
    if (!pages.ok()) return pages.status();
    side->pages_ = std::make_unique<worker::SharedMapping>(*std::move(pages));
    auto board = worker::SharedMapping::Map(memory.score_board_fd(), memory.score_board_bytes(),
                                            "score board");
    if (!board.ok()) return board.status();
    side->board_ = std::make_unique<worker::SharedMapping>(*std::move(board));
    side->view_.pages = side->pages_->data();
    side->view_.scores = reinterpret_cast<float*>(side->board_->data());
    side->view_.num_pages = cache::Inspector(side->pool_->coordinator()).pool().total.value();
    side->view_.geometry = side->pool_->geometry();
    side->link_ = std::make_unique<TimedLink>(std::make_unique<testing::InProcessLink>(
        side->pool_->coordinator(), side->pool_->coordinator().AddWorker("bench"),
        manager::CacheRules{
            side->pool_->geometry().page_tokens, side->pool_->geometry().num_layers, {}}));
    return side;
  }

  const kernels::PoolView& pool() const override { return view_; }
  worker::ManagerLink* link() override { return link_.get(); }
  double manager_seconds() const override { return link_->seconds(); }

 private:
  InProcessSide() = default;

  RealClock clock_;
  std::unique_ptr<manager::Pool> pool_;
  std::unique_ptr<worker::SharedMapping> pages_, board_;
  kernels::PoolView view_;
  std::unique_ptr<TimedLink> link_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ManagerSide>> MakeManagerSide(ManagerKind kind,
                                                             const folio::v1::ModelLayout& layout,
                                                             uint64_t pool_bytes,
                                                             const std::string& manager_binary) {
  if (kind == ManagerKind::kProcess) return ProcessSide::Start(layout, pool_bytes, manager_binary);
  return InProcessSide::Start(layout, pool_bytes);
}

}  // namespace folio::bench
