// Byte sizes and listen addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "services/runtime/byte_size.h"
#include "services/runtime/listen_address.h"

namespace folio {
namespace {

using ::testing::HasSubstr;

TEST(ByteSize, Parses) {
  const struct {
    const char* text;
    uint64_t bytes;
  } kCases[] = {{"0", 0},
                {"4096", 4096},
                {"100B", 100},
                {"2GiB", uint64_t{2} << 30},
                {"2 gib", uint64_t{2} << 30},
                {"512M", uint64_t{512} << 20},
                {"1.5KiB", 1536},
                {"3GB", 3000000000},
                {"1TiB", uint64_t{1} << 40}};
  for (const auto& c : kCases) {
    auto size = ParseByteSize(c.text);
    ASSERT_TRUE(size.ok()) << c.text << ": " << size.status();
    EXPECT_EQ(size->bytes, c.bytes) << c.text;
    EXPECT_EQ(ParseByteSize(FormatByteSize(*size))->bytes, c.bytes) << c.text;
  }
}

TEST(ByteSize, RefusesWithAnExample) {
  for (const char* text : {"", "GiB", "-1", "1e9", "2XiB", "2Gi", "1..5GiB", "99999999999TiB",
                           "18446744073709551616", "nan", "0x10"}) {
    auto size = ParseByteSize(text);
    ASSERT_FALSE(size.ok()) << text << " became " << size->bytes;
    EXPECT_THAT(std::string(size.status().message()), HasSubstr("2GiB")) << text;
  }
}

TEST(ListenAddress, Parses) {
  const struct {
    const char* text;
    const char* shown;
  } kCases[] = {{"unix:/run/folio/a.sock", "unix:/run/folio/a.sock"},
                {"unix:///run/a.sock", "unix:/run/a.sock"},
                {"127.0.0.1:8000", "127.0.0.1:8000"},
                {"localhost:0", "localhost:0"},
                {"[::1]:65535", "[::1]:65535"},
                {"*:80", "[::]:80"}};
  for (const auto& c : kCases) {
    auto address = ParseListenAddress(c.text);
    ASSERT_TRUE(address.ok()) << c.text << ": " << address.status();
    EXPECT_EQ(address->ToString(), c.shown);
  }
}

TEST(ListenAddress, RefusesWithWhatIsExpected) {
  const std::string long_path = "unix:/" + std::string(107, 'x');
  const struct {
    std::string text;
    const char* word;
  } kCases[] = {{"", "no port"},
                {"unix:", "absolute"},
                {"unix:relative.sock", "absolute"},
                {"unix:/", "absolute"},
                {"unix:/dir/", "absolute"},
                {long_path, "108 bytes"},
                {"localhost", "no port"},
                {"localhost:", "port"},
                {"localhost:http", "port"},
                {"localhost:65536", "0 to 65535"},
                {"localhost:-1", "0 to 65535"},
                {":80", "no host"},
                {"::1:80", "brackets"},
                {"a b:80", "bad host"}};
  for (const auto& c : kCases) {
    auto address = ParseListenAddress(c.text);
    ASSERT_FALSE(address.ok()) << c.text << " became " << address->ToString();
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(c.word)) << c.text;
    EXPECT_THAT(std::string(address.status().message()), HasSubstr("host:port")) << c.text;
  }
}

TEST(ListenFlag, WantsAddressesAndEachOnce) {
  auto addresses = ParseListenFlag("listen", {"unix:/a", "127.0.0.1:80"});
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  ASSERT_EQ(addresses->size(), 2U);
  EXPECT_EQ((*addresses)[1].ToString(), "127.0.0.1:80");
  EXPECT_EQ(ParseListenFlag("listen", {"unix:/a", "unix:///a"}).status().message(),
            "--listen=unix:///a: is given twice");
  EXPECT_THAT(std::string(ParseListenFlag("listen", {"here"}).status().message()),
              HasSubstr("--listen=here: "));
  EXPECT_THAT(std::string(ParseListenFlag("listen", {}).status().message()),
              HasSubstr("at least one"));
}

TEST(ListenFlag, HasNoAddressOfAnotherFlag) {
  const auto taken = ParseListenFlag("listen", {"unix:/a", "127.0.0.1:80", "127.0.0.1:0"});
  const auto free = ParseListenFlag("other_listen", {"unix:/b", "127.0.0.1:81", "127.0.0.1:0"});
  EXPECT_EQ(CheckNotTaken("other_listen", *free, "listen", *taken), absl::OkStatus());
  const auto same = ParseListenFlag("other_listen", {"unix:/b", "unix:///a"});
  EXPECT_EQ(CheckNotTaken("other_listen", *same, "listen", *taken).message(),
            "--other_listen=unix:/a: is an address of --listen; choose another");
}

}  // namespace
}  // namespace folio
