#include "services/runtime/log_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/base/unique_fd.h"

namespace folio::log {
namespace {

using ::testing::ElementsAre;

// A pipe with the smallest buffer, which is read only when a test says so.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    reader.Reset(ends[0]);
    writer.Reset(ends[1]);
    fcntl(writer.get(), F_SETPIPE_SZ, 4096);
  }

  // Reads until this many lines have come.
  std::vector<std::string> Lines(size_t count) const {
    std::string text;
    std::array<char, 4096> part{};
    while (static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) < count) {
      const ssize_t size = read(reader.get(), part.data(), part.size());
      if (size <= 0) break;
      text.append(part.data(), static_cast<size_t>(size));
    }
    return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  }

  UniqueFd reader, writer;
};

std::string Dropped(uint64_t lines) { return absl::StrCat("dropped ", lines); }

TEST(LogQueue, WritesLinesInOrder) {
  const Pipe pipe;
  LogQueue queue(pipe.writer.get(), 1000, Dropped);
  queue.Push("one");
  queue.Push("two");
  EXPECT_TRUE(queue.Flush(absl::Seconds(30)));
  EXPECT_TRUE(queue.idle());
  EXPECT_THAT(pipe.Lines(2), ElementsAre("one", "two"));
  EXPECT_EQ(queue.dropped(), 0u);
}

TEST(LogQueue, AReaderThatSleepsDelaysNobodyAndLearnsWhatIsMissing) {
  const Pipe pipe;
  LogQueue queue(pipe.writer.get(), 10'000, Dropped);
  constexpr uint64_t kLines = 10'000;
  for (uint64_t i = 0; i < kLines; ++i) queue.Push(absl::StrCat("line ", i));
  const uint64_t dropped = queue.dropped();
  EXPECT_GT(dropped, kLines / 2);
  EXPECT_FALSE(queue.Flush(absl::Milliseconds(10)));
  EXPECT_FALSE(queue.idle());

  // The first lines are there without a gap, and then the number of those that are not.
  const std::vector<std::string> lines = pipe.Lines(kLines - dropped + 1);
  ASSERT_EQ(lines.size(), kLines - dropped + 1);
  for (uint64_t i = 0; i + 1 < lines.size(); ++i) EXPECT_EQ(lines[i], absl::StrCat("line ", i));
  EXPECT_EQ(lines.back(), absl::StrCat("dropped ", dropped));

  EXPECT_TRUE(queue.Flush(absl::Seconds(30)));
  queue.Push("after the gap");
  EXPECT_THAT(pipe.Lines(1), ElementsAre("after the gap"));
  EXPECT_EQ(queue.dropped(), dropped);
}

TEST(LogQueue, ALineLongerThanTheQueueIsWritten) {
  const Pipe pipe;
  LogQueue queue(pipe.writer.get(), 10, Dropped);
  queue.Push(std::string(100, 'x'));
  EXPECT_THAT(pipe.Lines(1), ElementsAre(std::string(100, 'x')));
}

TEST(LogQueue, APipeWithoutReaderIsNoReasonToStop) {
  Pipe pipe;
  pipe.reader.Reset();
  LogQueue queue(pipe.writer.get(), 1000, Dropped);
  queue.Push("to nobody");
  EXPECT_TRUE(queue.Flush(absl::Seconds(30)));
  EXPECT_EQ(queue.dropped(), 1u);
}

TEST(LogQueue, WaitsForAPipeThatDoesNotBlock) {
  const Pipe pipe;
  ASSERT_EQ(fcntl(pipe.writer.get(), F_SETFL, O_NONBLOCK), 0);
  LogQueue queue(pipe.writer.get(), 1 << 20, Dropped);
  constexpr uint64_t kLines = 2000;
  for (uint64_t i = 0; i < kLines; ++i) queue.Push(absl::StrCat("line ", i));
  const std::vector<std::string> lines = pipe.Lines(kLines);
  EXPECT_EQ(lines.size(), kLines);
  EXPECT_EQ(lines.back(), "line 1999");
  EXPECT_EQ(queue.dropped(), 0u);
}

}  // namespace
}  // namespace folio::log
