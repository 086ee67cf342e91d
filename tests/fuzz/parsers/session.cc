#include "services/wire/session.h"

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "google/protobuf/stubs/logging.h"
#include "services/cache/inspector.h"
#include "services/cache/steering.h"
#include "services/manager/session_translator.h"
#include "services/runtime/logging.h"
#include "tests/fuzz/parsers/records.h"
#include "tests/fuzz/parsers/session_requests.h"

namespace folio::fuzz {
namespace {

constexpr CacheGeometry kGeometry = {
    .num_layers = 2, .num_kv_heads = 1, .head_dim = 8, .page_tokens = 4};
constexpr uint32_t kPages = 64;
constexpr uint32_t kSwapSlots = 16;

enum Kind : uint8_t {
  kMessageOfFirst = 0,   // a SessionRequest, whose step becomes the next one
  kMessageOfSecond = 1,  // of the other worker
  kMessageAsIs = 2,
  kPlausible = 3,  // bytes decide what the first worker does
  kPlausibleOfSecond = 4,
  kDamaged = 5,  // the same, with bytes changed
  kEnd = 6,      // of the first worker's session
  kTime = 7,
  kOrder = 8,  // of an operator
  kKinds = 9,
};
constexpr uint8_t kMessageKinds = 3;

class SteppedClock final : public Clock {
 public:
  SteadyTime Now() const override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  SteadyTime now_;
};

[[noreturn]] void Fail(absl::string_view why) {
  std::cerr << why << std::endl;
  std::abort();
}

class Life {
 public:
  void Play(const Record& record) {
    ByteSource bytes(record.bytes);
    switch (record.kind % kKinds) {
      case kMessageOfFirst:
        return SendBytes(first_, record.bytes, /*as_is=*/false);
      case kMessageOfSecond:
        return SendBytes(second_, record.bytes, /*as_is=*/false);
      case kMessageAsIs:
        return SendBytes(first_, record.bytes, /*as_is=*/true);
      case kPlausible:
        return PlaySteps(first_, bytes);
      case kPlausibleOfSecond:
        return PlaySteps(second_, bytes);
      case kDamaged:
        return SendDamaged(bytes);
      case kEnd:
        return End(first_, bytes.Bit());
      case kTime:
        return Pass(absl::Seconds(bytes.Byte()));
      default:
        return Order(bytes);
    }
  }

  // Nothing is left of the pool's pages when all have ended.
  void Finish() {
    End(first_, true);
    End(second_, false);
    Pass(absl::Seconds(31));
    const cache::PoolInfo pool = inspector_.pool();
    if (pool.sequences != 0 || pool.free.value() != kPages || pool.free_swap_slots != kSwapSlots) {
      Fail("pages are lost");
    }
  }

 private:
  struct Session {
    Session(cache::Coordinator& coordinator, manager::EventLog& events)
        : worker(coordinator.AddWorker("w")),
          translator(coordinator, worker,
                     manager::CacheRules{kGeometry.page_tokens, kGeometry.num_layers, {}}, nullptr,
                     &events) {}
    const WorkerId worker;
    manager::SessionTranslator translator;
    uint64_t step = 0;
  };

  cache::CoordinatorOptions Options() {
    cache::CoordinatorOptions options;
    options.geometry = kGeometry;
    options.num_pages = PageCount(kPages);
    options.admission = cache::Admission::kOptimistic;
    options.orphan_ttl = absl::Seconds(30);
    options.score_board = board_.data();
    options.swap_slots = kSwapSlots;
    options.clock = &clock_;
    return options;
  }

  void CheckWhole() const {
    const absl::Status whole = inspector_.CheckInvariants();
    if (!whole.ok()) Fail(whole.ToString());
  }

  void Send(std::optional<Session>& session, const v1::SessionRequest& request) {
    const auto reply = session->translator.Translate(wire::FromProto(request));
    CheckWhole();
    if (!reply.ok()) return End(session, false);
    if (reply->opened.size() != static_cast<size_t>(request.open_size()) ||
        reply->claimed.size() != static_cast<size_t>(request.claim_size())) {
      Fail("a part of the request has no answer");
    }
    session->step = request.step();
    const v1::SessionReply message = wire::ToProto(*reply);
    if (wire::ToProto(wire::FromProto(message, kGeometry.num_layers)).SerializeAsString() !=
        message.SerializeAsString()) {
      Fail("a worker reads another reply than was sent");
    }
  }

  void SendBytes(std::optional<Session>& session, const std::string& bytes, bool as_is) {
    v1::SessionRequest request;
    if (!request.ParseFromString(bytes)) return;
    if (!as_is) request.set_step(session->step + 1);
    Send(session, request);
  }

  void PlaySteps(std::optional<Session>& session, ByteSource& bytes) {
    for (int step = 0; step < 64 && !bytes.empty(); ++step) {
      Send(session, requests_.Next(session->worker, session->step + 1, bytes));
    }
  }

  void SendDamaged(ByteSource& bytes) {
    const uint8_t changes = bytes.Byte();
    std::string message =
        requests_.Next(first_->worker, first_->step + 1, bytes).SerializeAsString();
    for (int i = 0; i < changes % 4 && !message.empty(); ++i) {
      const uint32_t at = bytes.Below(static_cast<uint32_t>(message.size()));
      message[at] = static_cast<char>(bytes.Byte());
    }
    SendBytes(first_, message, /*as_is=*/false);
  }

  void End(std::optional<Session>& session, bool quiesced) {
    coordinator_.FenceWorker(session->worker, quiesced);
    CheckWhole();
    coordinator_.ConfirmExited(session->worker);
    CheckWhole();
    session.emplace(coordinator_, events_);
  }

  void Pass(absl::Duration time) {
    clock_.Advance(time);
    // Those that were fenced have a session that is refused from then on.
    for (const WorkerId worker : coordinator_.FenceExpired()) coordinator_.ConfirmExited(worker);
    coordinator_.EndExpiredOrphans();
    CheckWhole();
  }

  void Order(ByteSource& bytes) {
    const auto sequences = inspector_.sequences();
    if (sequences.empty()) return;
    const SequenceId id = sequences[bytes.Byte() % sequences.size()].id;
    cache::Steering steering(coordinator_);
    switch (bytes.Below(5)) {
      case 0:
        (void)steering.Close(id, "an operator");
        break;
      case 1:
        (void)steering.Park(id);
        break;
      case 2:
        (void)steering.Pin(id);
        break;
      case 3:
        (void)steering.Unpin(id);
        break;
      default:
        (void)steering.LowerBudget(id, TokenCount(bytes.Byte()));
    }
    CheckWhole();
  }

  SteppedClock clock_;
  std::vector<float> board_ = std::vector<float>(kGeometry.score_board_floats(kPages), 1.0F);
  manager::EventLog events_;
  cache::Coordinator coordinator_{Options()};
  const cache::Inspector inspector_{coordinator_};
  const SessionRequests requests_{coordinator_, kGeometry};
  std::optional<Session> first_{std::in_place, coordinator_, events_};
  std::optional<Session> second_{std::in_place, coordinator_, events_};
};

}  // namespace
}  // namespace folio::fuzz

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  return folio::fuzz::MutateRecords(data, size, most, seed, folio::v1::SessionRequest(),
                                    folio::fuzz::kMessageKinds);
}

// The life of two workers' sessions with one coordinator, as records say. The accounting of pages
// is whole after each of them, and no page is lost at the end.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    folio::log::Configure(folio::log::Format::kText, folio::log::Level::kError);
    google::protobuf::SetLogHandler(nullptr);  // of text that is not UTF-8
    return true;
  }();
  (void)quiet;
  folio::fuzz::Life life;
  for (const auto& record : folio::fuzz::ReadRecords({reinterpret_cast<const char*>(data), size})) {
    life.Play(record);
  }
  life.Finish();
  return 0;
}
