// Several pools at one manager: how a worker, a token and a sequence find theirs.
#include "services/manager/served_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/base/protocol.h"
#include "services/cache/inspector.h"
#include "services/manager/memory/host_memory.h"
#include "services/manager/pool_folders.h"
#include "services/manager/worker_name.h"
#include "tests/common/temp_dir.h"
#include "tests/manager/manager_harness.h"

namespace folio::manager {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

v1::ModelLayout Layout(const std::string& model) {
  v1::ModelLayout layout = testing::SmallLayout();
  layout.set_model(model);
  layout.set_fingerprint(model);
  if (model == "embed") layout.set_num_layers(3);
  return layout;
}

class ServedPoolsTest : public ::testing::Test {
 protected:
  ServedPoolsTest() { Start({"chat", "embed"}); }

  // The manager before ends.
  void Start(const std::vector<std::string>& names) {
    pools_.reset();
    folders_ = std::make_unique<PoolFolders>(dir_ / "state");
    ids_ = std::make_unique<cache::IdSource>();
    ASSERT_EQ(folders_->KeepOthers({names.begin(), names.end()}, ids_.get()), absl::OkStatus());
    std::vector<std::unique_ptr<ServedPool>> pools;
    for (const std::string& name : names) {
      auto opened = ServedPool::Open(
          {{name, 0.5}, static_cast<uint32_t>(pools.size() + 1)}, folders_->Of(name),
          {.pages = &memory_,
           .pool_size = {.bytes = 128 * testing::kSmallPageBytes},
           .rules = {.lease_ttl = absl::Seconds(60), .orphan_ttl = absl::Hours(1)},
           .export_socket = "none",
           .clock = &clock_,
           .event_log = {&log_, name},
           .ids = ids_.get()});
      ASSERT_TRUE(opened.ok()) << opened.status();
      pools.push_back(*std::move(opened));
    }
    pools_ = std::make_unique<ServedPools>(std::move(pools), &log_);
  }

  absl::StatusOr<v1::AttachResponse> Attach(const std::string& pool,
                                            const std::string& model = "chat") {
    v1::AttachRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_pool(pool);
    *request.mutable_layout() = Layout(model);
    return pools_->Attach(request, "");
  }
  // A worker of this process, with a session.
  PoolSession Join(const std::string& pool) {
    const auto attached = Attach(pool, pool);
    EXPECT_TRUE(attached.ok()) << attached.status();
    UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    const auto grant = pools_->RedeemExportToken(attached->export_token(),
                                                 {getpid(), std::move(pidfd), UniqueFd()});
    EXPECT_TRUE(grant.ok()) << grant.status();
    EXPECT_EQ(grant->pool->layout().model(), pool);
    v1::SessionHello hello;
    hello.set_worker_id(attached->worker_id());
    hello.set_session_token(attached->session_token());
    auto session = pools_->BeginSession(hello, [] {});
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }
  static absl::StatusOr<cache::Opened> Open(const PoolSession& session) {
    cache::OpenRequest open;
    open.worker = session.begun.worker;
    open.prompt = {TokenId(1), TokenId(2)};
    open.max_new_tokens = TokenCount(4);
    open.metadata.resume_token = testing::kSmallResumeToken;
    return session.begun.pool->coordinator().Open(open);
  }
  // The name of the pool that knows the sequence.
  absl::StatusOr<std::string> HomeOf(SequenceId id) {
    return pools_->OfSequence(
        id, [&](const ServedPool& served, const Pool& pool) -> absl::StatusOr<std::string> {
          const auto detail = cache::Inspector(pool.coordinator()).sequence(id);
          if (!detail.ok()) return detail.status();
          return served.name();
        });
  }

  const testing::TempDir dir_;
  const RealClock clock_;
  const HostMemory memory_;
  EventLog log_;
  std::unique_ptr<PoolFolders> folders_;
  std::unique_ptr<cache::IdSource> ids_;
  std::unique_ptr<ServedPools> pools_;
};

TEST_F(ServedPoolsTest, AWorkerMustNameAPoolOfTheManager) {
  const absl::Status none = Attach("").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(none.message()), HasSubstr("--pool, one of chat, embed"));
  const absl::Status unknown = Attach("chatt").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()),
              HasSubstr("no pool \"chatt\"; this manager has chat, embed"));
  const std::string strange = "\n" + std::string(1000, 'x');
  EXPECT_THAT(std::string(Attach(strange).status().message()), Not(HasSubstr("\n")));
  EXPECT_LT(Attach(strange).status().message().size(), 200U);
  EXPECT_EQ(log_.newest(), 4U) << "each refusal is an event";
  EXPECT_EQ(Attach("embed")->pool_name(), "embed");
}

TEST_F(ServedPoolsTest, TheOnlyPoolNeedsNoName) {
  Start({"default"});
  EXPECT_EQ(Attach("")->pool_name(), "default");
  EXPECT_EQ(Attach("default")->pool_name(), "default");
  EXPECT_EQ(Attach("chat").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ServedPoolsTest, TokensAndIdsFindTheirPool) {
  const PoolSession chat = Join("chat"), embed = Join("embed"), other = Join("chat");
  EXPECT_EQ(chat.home, other.home);
  EXPECT_EQ(embed.home->name(), "embed");
  EXPECT_THAT((std::set{chat.begun.worker, embed.begun.worker, other.begun.worker}), SizeIs(3));
  const auto first = Open(chat), second = Open(embed), third = Open(other);
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  EXPECT_THAT((std::vector{first->sequence, second->sequence, third->sequence}),
              ElementsAre(SequenceId(1), SequenceId(2), SequenceId(3)));
  EXPECT_EQ(*HomeOf(second->sequence), "embed");
  EXPECT_EQ(*HomeOf(third->sequence), "chat");
  EXPECT_EQ(HomeOf(SequenceId(9)).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pools_->FindWorker(WorkerName(embed.begun.worker))->home, embed.home);
  EXPECT_EQ(pools_->FindWorker("w9").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(pools_->RunningSequences(), 3U);
  EXPECT_EQ(pools_->RedeemExportToken("unknown", {.pidfd = UniqueFd(), .connection = UniqueFd()})
                .status()
                .code(),
            absl::StatusCode::kNotFound);
}

TEST_F(ServedPoolsTest, WhatHappensInOnePoolLeavesTheOtherAlone) {
  const PoolSession chat = Join("chat"), embed = Join("embed");
  ASSERT_TRUE(Open(embed).ok());
  while (Open(chat).ok()) {
  }
  EXPECT_TRUE(Open(embed).ok()) << "the other pool is full";
  chat.home->registry().EndSession(chat.begun.worker);
  EXPECT_FALSE(Open(chat).ok());
  EXPECT_TRUE(Open(embed).ok());
}

TEST_F(ServedPoolsTest, IdsGoOnAfterThoseOfAllPools) {
  ASSERT_TRUE(Open(Join("chat")).ok());
  SequenceId last;
  WorkerId newest;
  {
    const PoolSession embed = Join("embed");
    last = Open(embed)->sequence;
    newest = embed.begun.worker;
  }
  using Names = std::vector<std::string>;
  for (const Names& names :
       std::vector<Names>{Names{"chat", "embed"}, Names{"chat"}, Names{"default"}}) {
    Start(names);
    EXPECT_GT(ids_->NextSequence(), last) << names[0] << " of " << names.size();
    EXPECT_GT(ids_->NextWorker(), newest) << names[0] << " of " << names.size();
  }
}

TEST_F(ServedPoolsTest, APoolKeepsItsSequencesWhileAManagerServesOthers) {
  const SequenceId id = Open(Join("embed"))->sequence;
  Start({"chat"});
  EXPECT_EQ(HomeOf(id).status().code(), absl::StatusCode::kNotFound);
  Start({"chat", "embed"});
  EXPECT_EQ(*HomeOf(id), "embed");
}

TEST_F(ServedPoolsTest, AFolderIsOfOneManager) {
  PoolFolders second(dir_ / "state");
  EXPECT_EQ(second.KeepOthers({"other"}, ids_.get()).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace folio::manager
