// The entries of a journal: their frames, and the settings of sequences in them.
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "services/manager/journal/frames.h"
#include "tests/manager/journal_fixture.h"

namespace folio::manager {
namespace {

using cache::Harness;

TEST(Frames, AFileIsReadUpToTheFirstEntryThatIsNotWhole) {
  std::string file;
  AppendFrame("one", &file);
  AppendFrame("", &file);
  AppendFrame(std::string(300, 'x'), &file);
  for (size_t size = 0; size <= file.size(); ++size) {
    FrameReader reader(absl::string_view(file).substr(0, size));
    size_t read = 0, offset = 0;
    while (const auto frame = reader.Next()) {
      ++read;
      offset += kFrameHead + frame->size();
    }
    EXPECT_EQ(reader.offset(), offset);
    EXPECT_EQ(reader.end() == FrameReader::End::kClean, offset == size);
    EXPECT_NE(reader.end(), FrameReader::End::kDamaged);
    EXPECT_EQ(read == 3, size == file.size());
  }
}

TEST(Frames, EveryFlippedBitIsNoticed) {
  std::string file;
  AppendFrame("one entry", &file);
  AppendFrame("another", &file);
  for (size_t bit = 0; bit < 8 * file.size(); ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    FrameReader reader(damaged);
    std::vector<std::string> read;
    while (const auto frame = reader.Next()) read.emplace_back(*frame);
    EXPECT_EQ(reader.end(), FrameReader::End::kDamaged) << bit;
    EXPECT_LT(read.size(), 2U) << bit;
    for (const std::string& one : read) EXPECT_EQ(one, "one entry") << bit;
  }
  const std::string zeros(64, '\0');
  FrameReader reader(zeros);
  EXPECT_FALSE(reader.Next().has_value());
}

// Each policy's settings, with its defaults filled in, come back as they were.
class PolicyInJournal : public ::testing::TestWithParam<size_t> {};

template <size_t index = 0>
policy::PolicySpec SpecAt(size_t wanted) {
  if constexpr (index < std::variant_size_v<policy::PolicySpec>) {
    if (index == wanted) return policy::PolicySpec(std::in_place_index<index>);
    return SpecAt<index + 1>(wanted);
  }
  return {};
}

TEST_P(PolicyInJournal, ComesBack) {
  Harness harness;
  const WorkerId worker = harness.coordinator->AddWorker("w");
  const policy::PolicySpec spec = SpecAt(GetParam());
  const bool full = std::holds_alternative<policy::FullSpec>(spec);
  policy::CacheConfig cache = full ? Full() : cache::Cache(spec, 96, 4, 4);
  if (!full) cache.layer_budgets = {TokenCount(96), TokenCount(80)};
  cache::OpenRequest request = cache::Request(worker, 8, 4, cache);
  request.metadata.resume_token = "secret";
  const auto opened = harness.coordinator->Open(request);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const cache::SavedSequence& saved = harness.journal.sequences().begin()->second;
  state::JournalSequence message;
  ToMessage(saved, &message);
  const auto read = FromMessage(message, harness.geometry);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Bytes(*read), message.SerializeAsString());
}

INSTANTIATE_TEST_SUITE_P(All, PolicyInJournal,
                         ::testing::Range(size_t{0}, std::variant_size_v<policy::PolicySpec>));

class SequenceInJournal : public JournalTest {
 protected:
  // One that decodes, as the journal has it.
  state::JournalSequence Message() {
    cache::WorkerSequence sequence = Open(8, Full());
    EXPECT_TRUE(sequence.Commit(8).ok());
    state::JournalSequence message;
    ToMessage(harness_.journal.sequences().begin()->second, &message);
    EXPECT_TRUE(FromMessage(message, harness_.geometry).ok());
    return message;
  }
};

TEST_F(SequenceInJournal, NumbersThatNoManagerWritesAreErrors) {
  const state::JournalSequence good = Message();
  const std::vector<void (*)(state::JournalSequence&)> damages = {
      [](state::JournalSequence& message) { message.set_logical_length(10); },
      [](state::JournalSequence& message) { message.set_max_new_tokens(0xFFFFFFFF); },
      [](state::JournalSequence& message) { message.mutable_layers(1)->set_runs(1, 9); },
      [](state::JournalSequence& message) {  // would be tables for all positions
        message.set_swap(static_cast<uint32_t>(cache::SwapUse::kOut));
        for (auto& layer : *message.mutable_layers()) {
          layer.clear_pages();
          layer.set_runs(1, 0xFFFFFFFF);
        }
      },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    state::JournalSequence message = good;
    damages[i](message);
    EXPECT_EQ(FromMessage(message, harness_.geometry).status().code(), absl::StatusCode::kInternal)
        << i;
  }
}

TEST_F(SequenceInJournal, IsNotReadIntoAPoolOfAnotherLayout) {
  state::JournalPool pool = PoolMessage();
  pool.mutable_layout()->set_num_layers(3);
  for (const bool replaces : {false, true}) {
    Begin();
    Live();
    if (replaces) pool.set_pool_id("other memory");
    pool.set_replaces_memory(replaces);
    journal_->OnPool(pool);
    journal_->files().Flush();
    const Recovered recovered = Read();
    ASSERT_EQ(recovered.damage.size(), 1U);
    EXPECT_NE(recovered.damage[0].find("the pool has another layout than before"),
              std::string::npos)
        << recovered.damage[0];
    EXPECT_FALSE(recovered.cache.has_contents);
    for (const auto& file : Files()) std::filesystem::remove(file);
  }
}

}  // namespace
}  // namespace folio::manager
