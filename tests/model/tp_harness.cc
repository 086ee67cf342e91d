#include "tests/model/tp_harness.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "services/base/check.h"
#include "services/model/cpu/cpu_executor.h"
#include "services/model/tp/rank_follower.h"
#include "services/model/tp/shard.h"
#include "tests/model/executor_harness.h"

namespace folio::model::testing {
namespace {

constexpr uint32_t kPageTokens = 16;

std::unique_ptr<Executor> MakeExecutor(const GroupSetup& setup, const ModelSource& source,
                                       const kernels::PoolView& view, CpuGroup group) {
  CpuExecutorOptions options;
  options.max_rows = setup.max_rows;
  options.group = std::move(group);
  auto executor = MakeCpuExecutor(source, OpsNamed(setup.ops), 1, view, options);
  FOLIO_CHECK(executor.ok());
  return *std::move(executor);
}

}  // namespace

CacheGeometry GeometryOf(const GroupSetup& setup) {
  return GeometryFor(setup.model.config(), kPageTokens);
}

std::string LeadOrFollow(const GroupSetup& setup, collective::Collective& group,
                         std::unique_ptr<Executor> own, TestPool& pages, const SharedFloats& board,
                         const std::function<std::string(Stage&)>& script,
                         const std::function<void(collective::Collective&)>& meddle,
                         const std::function<void(const Executor&)>& after) {
  const Executor& mine = *own;
  if (!group.leads()) {
    if (meddle) meddle(group);
    const absl::Status status = RunRankFollower(*own, group, setup.busy);
    if (after) after(mine);
    return status.ok() ? "" : status.ToString();
  }
  const auto executor = MakeTpExecutor(std::move(own), &group, setup.options);
  kernels::PoolView all;
  all.scores = board.data();
  all.num_pages = setup.pages;
  all.geometry = GeometryOf(setup);
  Stage stage{*executor, pages, all};
  std::string wrong = script(stage);
  if (after) after(mine);
  return wrong;
}

SharedFloats::SharedFloats(size_t count) : count_(count) {
  void* memory = mmap(nullptr, count * sizeof(float), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  FOLIO_CHECK(memory != MAP_FAILED);
  data_ = static_cast<float*>(memory);
  std::fill_n(data_, count, std::numeric_limits<float>::quiet_NaN());
}

SharedFloats::~SharedFloats() { munmap(data_, count_ * sizeof(float)); }

std::string RunAlone(const GroupSetup& setup, const std::function<std::string(Stage&)>& script) {
  TestPool pages(setup.model.config(), setup.pages, kPageTokens);
  const auto executor = MakeExecutor(setup, setup.model, pages.view(), {});
  Stage stage{*executor, pages, pages.view()};
  return script(stage);
}

namespace {

// A rank's part of the model, its pages and its executor.
struct RankParts {
  RankParts(const GroupSetup& setup, collective::Collective& group, const SharedFloats& board)
      : shards(*ShardForAll(setup.model.config(), setup.ranks)),
        source(setup.model, shards[group.rank().value()]),
        pages(source.config(), setup.pages, kPageTokens) {
    kernels::PoolView view =
        ShardPool(shards[group.rank().value()], pages.view().pages, board.data(), setup.pages,
                  pages.view().geometry, setup.model.config().kv_heads);
    view.swap = pages.view().swap;
    view.swap.board = board.data();
    executor = MakeExecutor(setup, source, view, {shards, &group, setup.options.timeout});
  }

  const std::vector<Shard> shards;
  const ShardSource source;
  TestPool pages;
  std::unique_ptr<Executor> executor;
};

size_t BoardFloats(const GroupSetup& setup) {
  return GeometryOf(setup).score_board_floats(setup.pages);
}

}  // namespace

std::vector<std::string> RunGroup(const GroupSetup& setup,
                                  const std::function<std::string(Stage&)>& script,
                                  const std::function<void(collective::Collective&)>& meddle) {
  const SharedFloats board(BoardFloats(setup));
  const auto body = [&](collective::Collective& group) -> std::string {
    RankParts parts(setup, group, board);
    return LeadOrFollow(setup, group, std::move(parts.executor), parts.pages, board, script,
                        meddle);
  };
  return collective::testing::RunRanks(setup.kind, setup.ranks, 1 << 16, body);
}

std::vector<std::string> FollowByHand(const GroupSetup& setup,
                                      const collective::testing::RankBody& leader) {
  const SharedFloats board(BoardFloats(setup));
  const auto body = [&](collective::Collective& group) {
    if (group.leads()) return leader(group);
    RankParts parts(setup, group, board);
    return LeadOrFollow(setup, group, std::move(parts.executor), parts.pages, board, {}, {});
  };
  return collective::testing::RunRanks(setup.kind, setup.ranks, 1 << 16, body);
}

}  // namespace folio::model::testing
