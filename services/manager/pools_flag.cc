#include "services/manager/pools_flag.h"

#include <algorithm>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "services/runtime/flags.h"

ABSL_FLAG(
    std::vector<std::string>, pools, {},
    "pools for models that are served at the same time, each with its share of --pool_bytes and "
    "--host_swap_bytes, such as chat:70%,embed:30%. A worker joins one with --pool. If empty, "
    "there is one pool with everything");

namespace folio::manager {
namespace {

// Shares are written in decimal, so that their sum is not exact.
constexpr double kRounding = 1e-9;

bool IsName(absl::string_view name) {
  const auto fits = [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  };
  return !name.empty() && name.size() <= kMaxPoolNameBytes &&
         std::all_of(name.begin(), name.end(), fits);
}

}  // namespace

absl::StatusOr<std::vector<PoolShare>> ParsePools(const std::vector<std::string>& given) {
  std::vector<PoolShare> pools;
  double sum = 0;
  const std::string all = absl::StrJoin(given, ",");
  for (const std::string& text : given) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(text, absl::MaxSplits(':', 1));
    const std::string name(absl::StripAsciiWhitespace(parts.first));
    if (!IsName(name)) {
      return BadFlag("pools", all,
                     absl::StrCat("\"", name, "\" is not a name; write 1 to ", kMaxPoolNameBytes,
                                  " lower-case letters, digits and hyphens, and the share behind "
                                  "a colon, such as chat:70%"));
    }
    PoolSize share;
    std::string error;
    if (!AbslParseFlag(parts.second, &share, &error) || share.share <= 0) {
      return BadFlag("pools", all,
                     absl::StrCat("\"", text,
                                  "\" gives no share; write one above 0% and up to "
                                  "100%, such as ",
                                  name, ":50%"));
    }
    const auto same = [&](const PoolShare& one) { return one.name == name; };
    if (std::any_of(pools.begin(), pools.end(), same)) {
      return BadFlag("pools", all, absl::StrCat("names the pool ", name, " twice"));
    }
    sum += share.share;
    pools.push_back({name, share.share});
  }
  if (sum > 1 + kRounding) {
    return BadFlag("pools", all,
                   absl::StrCat("the shares are ", sum * 100, "% together; give at most 100%"));
  }
  return pools;
}

absl::StatusOr<std::vector<PoolShare>> ReadPools() {
  return ParsePools(absl::GetFlag(FLAGS_pools));
}

std::string FormatPools(const std::vector<PoolShare>& pools) {
  return absl::StrJoin(pools, ",", [](std::string* out, const PoolShare& pool) {
    absl::StrAppend(out, pool.name, ":", pool.part * 100, "%");
  });
}

}  // namespace folio::manager
