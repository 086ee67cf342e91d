#include "services/manager/export_socket.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/base/protocol.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/served_pools.h"
#include "services/runtime/logging.h"
#include "services/wire/layout.h"
#include "tests/fuzz/parsers/byte_source.h"
#include "tests/fuzz/parsers/memory_folder.h"

namespace folio::fuzz {
namespace {

constexpr char kPool[] = "0123456789abcdef";
constexpr uint32_t kPages = 8;
constexpr uint32_t kSwapSlots = 4;

[[noreturn]] void Fail(absl::string_view why) {
  std::cerr << why << std::endl;
  std::abort();
}

size_t OpenDescriptors() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<size_t>(std::distance(Entries("/proc/self/fd"), Entries()));
}

v1::ModelLayout Layout() {
  v1::ModelLayout layout;
  layout.set_model("m");
  layout.set_fingerprint("f");
  layout.set_num_layers(2);
  layout.set_num_kv_heads(1);
  layout.set_head_dim(8);
  layout.set_page_tokens(16);
  layout.set_data_type(v1::DATA_TYPE_BFLOAT16);
  return layout;
}

// The journal of a manager whose worker has kept the memory.
manager::Recovered Before(bool swap) {
  manager::Recovered before;
  auto& pool = before.pool.emplace();
  pool.set_pool_id(kPool);
  *pool.mutable_layout() = Layout();
  pool.set_num_pages(kPages);
  if (swap) pool.set_swap_slots(kSwapSlots);
  pool.add_rank_device("cpu");
  pool.add_rank_memory()->set_bytes(kPages * wire::GeometryOf(Layout()).page_bytes());
  auto& worker = before.workers.emplace_back();
  worker.set_id(1);
  worker.set_session_token("session");
  worker.add_ranks()->set_fetched(true);
  before.last_ids.worker = WorkerId(1);
  before.cache.has_contents = true;
  return before;
}

UniqueFd Memory(size_t bytes, int seals) {
  UniqueFd fd(memfd_create("brought", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) std::abort();
  if (seals != 0 && fcntl(fd.get(), F_ADD_SEALS, seals) != 0) std::abort();
  return fd;
}

// A manager whose first worker attaches.
class Manager {
 public:
  explicit Manager(uint8_t options) : socket_(folder_.FileOf("export")) {
    const bool awaits = (options & 1) != 0;
    if (awaits) before_ = Before((options & 2) != 0);
    manager::RegistryOptions registry;
    registry.pages = &pages_;
    registry.pool_size = {.bytes = 1 << 16};
    if ((options & 2) != 0) registry.rules.host_swap_bytes = 1 << 14;
    registry.rules.orphan_ttl = absl::Seconds(30);
    registry.export_socket = socket_;
    registry.clock = &clock_;
    registry.recovered = awaits ? &before_ : nullptr;
    auto pool = manager::ServedPool::Open({}, "", registry);
    if (!pool.ok()) Fail(pool.status().ToString());
    std::vector<std::unique_ptr<manager::ServedPool>> pools;
    pools.push_back(*std::move(pool));
    pools_.emplace(std::move(pools), manager::PoolEvents());
    InheritedSockets none;
    auto serving = manager::ExportSocket::Start(socket_, none, &*pools_);
    if (!serving.ok()) Fail(serving.status().ToString());
    serving_ = *std::move(serving);
    v1::AttachRequest request;
    request.set_protocol_version(kProtocolVersion);
    *request.mutable_layout() = Layout();
    request.set_maps_swap_memory((options & 4) != 0);
    request.set_keeps_export_connection((options & 8) != 0);
    if (awaits) {
      request.set_held_pool_id(kPool);
      request.mutable_previous_session()->set_worker_id("w1");
      request.mutable_previous_session()->set_session_token("session");
    }
    auto attached = pools_->Attach(request, "");
    if (!attached.ok()) Fail(attached.status().ToString());
    token_ = attached->export_token();
  }

  const std::string& socket() const { return socket_; }
  const std::string& token() const { return token_; }

 private:
  const MemoryFolder folder_;
  const std::string socket_;
  const manager::HostMemory pages_;
  const RealClock clock_;
  manager::Recovered before_;
  std::optional<manager::ServedPools> pools_;
  std::unique_ptr<manager::ExportSocket> serving_;  // ends first
  std::string token_;
};

// Descriptors to send, of the kinds that `which` says.
UniqueFd Ware(uint8_t which, int own) {
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const CacheGeometry geometry = wire::GeometryOf(Layout());
  std::array<int, 2> ends = {-1, -1};
  switch (which % 9) {
    case 0:
      return Memory(kPages * geometry.page_bytes(), kSealed);
    case 1:
      return Memory(geometry.score_board_floats(kPages) * sizeof(float), kSealed);
    case 2:
      return Memory(kSwapSlots * geometry.swap_slot_bytes(), kSealed);
    case 3:
      return Memory(kPages * geometry.page_bytes(), 0);
    case 4:
      return Memory(which, kSealed);
    case 5:
      return UniqueFd(fcntl(own, F_DUPFD_CLOEXEC, 0));
    case 6:
      return UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC));
    case 7:
      return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    default:
      if (pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
      close(ends[1]);
      return UniqueFd(ends[0]);
  }
}

// One caller, which sends messages, may wait for an answer and leaves. Returns whether it got
// descriptors.
bool Call(const Manager& manager, ByteSource& bytes) {
  auto connection = ConnectUnix(manager.socket());
  if (!connection.ok()) Fail(connection.status().ToString());
  const uint8_t how = bytes.Byte();
  bool knows = false;
  for (int message = 0; message <= how % 3; ++message) {
    std::string text;
    const uint8_t kind = bytes.Byte();
    if ((kind & 1) != 0) text = manager.token();
    const absl::string_view more = bytes.Take(bytes.Below(400));
    if ((kind & 6) == 0 || (kind & 1) == 0) text.append(more.data(), more.size());
    knows |= text == manager.token();
    std::vector<UniqueFd> wares;
    std::vector<int> fds;
    for (int i = (kind >> 3) % 6; i > 0; --i) {
      wares.push_back(Ware(bytes.Byte(), connection->get()));
      fds.push_back(wares.back().get());
    }
    // A caller may have been refused after its first message.
    (void)SendMessage(connection->get(), text, fds);
  }
  shutdown(connection->get(), SHUT_WR);
  if ((how & 4) != 0) return false;
  const auto answer = ReceiveMessage(connection->get(), absl::Seconds(20));
  if (!answer.ok() || answer->fds.empty()) return false;
  if (!knows) Fail("a caller without the token got the pool");
  return true;
}

}  // namespace
}  // namespace folio::fuzz

// Callers of the export socket of a manager that lives for one input. The token is worth one answer
// at most, and no descriptor is left behind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  folio::log::Configure(folio::log::Format::kText, folio::log::Level::kError);
  folio::fuzz::ByteSource bytes({reinterpret_cast<const char*>(data), size});
  const size_t before = folio::fuzz::OpenDescriptors();
  {
    const folio::fuzz::Manager manager(bytes.Byte());
    int granted = 0;
    for (int caller = 0; caller < 4 && !bytes.empty(); ++caller) {
      granted += folio::fuzz::Call(manager, bytes) ? 1 : 0;
    }
    if (granted > 1) folio::fuzz::Fail("the token was worth the pool twice");
  }
  const size_t after = folio::fuzz::OpenDescriptors();
  if (after != before) folio::fuzz::Fail("a descriptor was left behind");
  return 0;
}
