#include "tests/bench/moveless_worker.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "services/base/steady_time.h"
#include "services/manager/memory/host_memory.h"

namespace folio::bench {
namespace {

constexpr uint32_t kMaxNewTokens = 4096;
constexpr uint32_t kSmallHead = 8;  // elements of a head in the pages, which are never read

// Takes lines out of all caches, where another device's writes would not be either.
void Flush(const float* begin, size_t count) {
#if defined(__x86_64__)
  constexpr size_t kLine = 64 / sizeof(float);
  for (size_t i = 0; i < count; i += kLine) _mm_clflush(begin + i);
  _mm_mfence();
#endif
}

}  // namespace

MovelessWorker::MovelessWorker(const CacheGeometry& shape, uint32_t context, std::string cache)
    : shape_(shape), context_(context), cache_(std::move(cache)) {}

absl::StatusOr<std::unique_ptr<MovelessWorker>> MovelessWorker::Create(
    const CacheGeometry& shape, uint32_t sequences, uint32_t context, const v1::CacheOptions& cache,
    uint32_t decision_threads, const std::string& state_dir) {
  std::unique_ptr<MovelessWorker> made(
      new MovelessWorker(shape, context, cache.SerializeAsString()));
  v1::ModelLayout layout;
  layout.set_model("shape");
  layout.set_fingerprint(std::string(64, '0'));
  layout.set_num_layers(shape.num_layers);
  layout.set_num_kv_heads(shape.num_kv_heads);
  layout.set_head_dim(kSmallHead);
  layout.set_page_tokens(shape.page_tokens);
  layout.set_data_type(v1::DATA_TYPE_BFLOAT16);
  CacheGeometry small = shape;
  small.head_dim = kSmallHead;
  const uint64_t held = cache.budget_tokens() / shape.page_tokens + 3;
  const uint64_t prompt = (context + kMaxNewTokens) / shape.page_tokens + 3;
  const uint64_t pages = shape.num_layers * (sequences * held + prompt);
  if (!state_dir.empty()) {
    auto directory = manager::StateDirectory::Open(state_dir);
    if (!directory.ok()) return directory.status();
    made->journal_ =
        std::make_unique<manager::ManagerJournal>(*std::move(directory), manager::Recovered());
  }
  auto pool = manager::Pool::Create(
      layout, manager::HostMemory(), {.bytes = pages * small.page_bytes()},
      {.lease_ttl = absl::Hours(1), .decision_threads = decision_threads},
      {.clock = &made->clock_, .observer = &made->deciding_, .journal = made->journal_.get()});
  if (!pool.ok()) return pool.status();
  made->pool_ = *std::move(pool);
  const manager::PoolExport& memory = made->pool_->memory();
  auto board = worker::SharedMapping::Map(memory.score_board_fd(), memory.score_board_bytes(),
                                          "score board");
  if (!board.ok()) return board.status();
  made->board_ = std::make_unique<worker::SharedMapping>(*std::move(board));
  cache::Coordinator& coordinator = made->pool_->coordinator();
  made->session_ = std::make_unique<manager::SessionTranslator>(
      coordinator, coordinator.AddWorker("bench"),
      manager::CacheRules{shape.page_tokens, shape.num_layers, {}});
  return made;
}

absl::StatusOr<SessionReply> MovelessWorker::Ask(SessionRequest request, ManagerTime* time) {
  request.step = ++step_;
  const SteadyTime start = SteadyNow();
  absl::StatusOr<SessionReply> reply = session_->Translate(request);
  if (journal_ != nullptr) journal_->files().Flush();  // as the service does before it answers
  const absl::Duration took = SteadyNow() - start;
  const absl::Duration deciding = deciding_.Take();
  if (!reply.ok()) return reply;
  if (!reply->failed.empty()) return reply->failed[0].status;
  if (time != nullptr) {
    time->whole += took;
    time->deciding += deciding;
  }
  if (absl::Status s = Take(*reply); !s.ok()) return s;
  return reply;
}

absl::Status MovelessWorker::Take(const SessionReply& reply) {
  const auto find = [this](SequenceId id) {
    return std::find_if(sequences_.begin(), sequences_.end(),
                        [id](const Sequence& one) { return one.id == id; });
  };
  for (const PageGrant& grant : reply.granted) {
    Sequence& sequence = *find(grant.sequence);
    for (size_t layer = 0; layer < grant.pages.size(); ++layer) {
      PageList& table = sequence.tables[layer];
      table.insert(table.end(), grant.pages[layer].begin(), grant.pages[layer].end());
    }
  }
  for (const Plan& plan : reply.plans) Apply(plan, *find(plan.sequence));
  return absl::OkStatus();
}

void MovelessWorker::Apply(const Plan& plan, Sequence& sequence) {
  sequence.plan = plan.epoch;
  const auto note = [this](uint64_t value) { digest_ = (digest_ ^ value) * 1099511628211U; };
  for (size_t layer = 0; layer < sequence.tables.size(); ++layer) {
    PageList& table = sequence.tables[layer];
    if (const auto* compact = std::get_if<CompactAction>(&plan.action)) {
      for (const TokenSlot slot : compact->keep[layer]) note(slot.value());
      const auto kept = static_cast<uint32_t>(compact->keep[layer].size());
      table.resize(shape_.pages_for(kept) + compact->spare[layer].value());
      sequence.resident[layer] = kept;
    } else if (const auto block = std::get<DropAction>(plan.action).block[layer]) {
      note(block->value());
      table.erase(table.begin() + block->value());
      sequence.resident[layer] -= shape_.page_tokens;
    }
  }
}

void MovelessWorker::WriteRows(PageRef page, uint32_t begin, uint32_t end, uint32_t channels) {
  const size_t heads = shape_.num_kv_heads;
  const size_t channel_floats = board_->bytes() / sizeof(float) / CacheGeometry::kScoreChannels;
  auto* scores = reinterpret_cast<float*>(board_->data());
  for (uint32_t channel = 0; channel < channels; ++channel) {
    float* rows = scores + channel * channel_floats + page.page.value() * shape_.scores_per_page();
    for (size_t i = begin * heads; i < end * heads; ++i) {
      rows[i] = static_cast<float>(random_()) / 2147483648.0F;
    }
    Flush(rows + begin * heads, (end - begin) * heads);
  }
}

void MovelessWorker::WriteScores(const Sequence& sequence, size_t layer) {
  const uint32_t slot = sequence.resident[layer];
  const uint32_t row = slot % shape_.page_tokens;
  const PageRef page = sequence.tables[layer][slot / shape_.page_tokens];
  if (scores_.time == ScoreTime::kAppend) return WriteRows(page, row, row + 1, 1);
  if (scores_.time == ScoreTime::kPromptEnd || row + 1 < shape_.page_tokens) return;
  WriteRows(page, 0, shape_.page_tokens, 1);
}

absl::StatusOr<ManagerTime> MovelessWorker::Prompt() {
  OpenSequence open;
  open.prompt.assign(context_, TokenId(1));
  open.max_new_tokens = TokenCount(kMaxNewTokens);
  open.cache.bytes = cache_;
  SessionRequest asks;
  asks.open.push_back(std::move(open));
  absl::StatusOr<SessionReply> reply = Ask(std::move(asks), nullptr);
  if (!reply.ok()) return reply.status();
  OpenResult& opened = reply->opened[0];
  if (!opened.status.ok()) return opened.status;
  scores_ = opened.scores;
  prompt_scores_ = opened.prompt_scores;
  const uint32_t channels = prompt_scores_.kind == ScoreKind::kNone ? 1 : 2;
  for (const PageList& table : opened.pages) {
    for (const PageRef page : table) WriteRows(page, 0, shape_.page_tokens, channels);
  }
  sequences_.push_back({.id = opened.sequence,
                        .lease_epoch = opened.lease_epoch,
                        .length = context_,
                        .tables = std::move(opened.pages),
                        .resident = std::vector<uint32_t>(shape_.num_layers, context_),
                        .plan = std::nullopt});
  ManagerTime time;
  SessionRequest ends;
  ends.commit.push_back({.sequence = opened.sequence,
                         .lease_epoch = opened.lease_epoch,
                         .logical_length = TokenCount(context_),
                         .sampled = {TokenId(2)},
                         .filled = {}});
  if (auto ended = Ask(std::move(ends), &time); !ended.ok()) return ended.status();
  Sequence& sequence = sequences_.back();
  if (!sequence.plan.has_value()) return absl::InternalError("the prompt was not compacted");
  SessionRequest acknowledges;
  acknowledges.ack.push_back(
      {sequence.id, sequence.lease_epoch, *std::exchange(sequence.plan, std::nullopt)});
  if (auto done = Ask(std::move(acknowledges), &time); !done.ok()) return done.status();
  return time;
}

CommitTokens MovelessWorker::Append(Sequence& sequence) {
  CommitTokens commit = {.sequence = sequence.id,
                         .lease_epoch = sequence.lease_epoch,
                         .logical_length = TokenCount(++sequence.length),
                         .sampled = {TokenId(3)},
                         .filled = {}};
  for (size_t layer = 0; layer < sequence.tables.size(); ++layer) {
    WriteScores(sequence, layer);
    const uint32_t resident = ++sequence.resident[layer];
    if (resident % shape_.page_tokens != 0) continue;
    commit.filled.push_back(sequence.tables[layer][resident / shape_.page_tokens - 1]);
  }
  return commit;
}

absl::StatusOr<ManagerTime> MovelessWorker::Step(uint32_t count) {
  SessionRequest request;
  for (uint32_t i = 0; i < count; ++i) {
    Sequence& sequence = sequences_[i];
    if (sequence.plan.has_value()) {
      request.ack.push_back(
          {sequence.id, sequence.lease_epoch, *std::exchange(sequence.plan, std::nullopt)});
    }
    request.commit.push_back(Append(sequence));
  }
  ManagerTime time;
  if (auto reply = Ask(std::move(request), &time); !reply.ok()) return reply.status();
  return time;
}

}  // namespace folio::bench
