#include "services/access/access_rules.h"

#include <array>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/access/sha256.h"
#include "services/base/fair_turns.h"
#include "services/base/invalid_argument.h"
#include "services/base/urgency.h"
#include "services/text/utf8.h"

namespace folio::access {
namespace {

using Words = std::vector<absl::string_view>;

constexpr absl::string_view kAnyTenant = "*";
constexpr absl::string_view kNoTenant = "-";

// As it may stand in a message.
std::string Quoted(absl::string_view word) {
  constexpr size_t kMost = 80;
  const std::string shown = absl::Utf8SafeCEscape(word.substr(0, kMost));
  return absl::StrCat("\"", shown, word.size() > kMost ? "..." : "", "\"");
}

Words WordsOf(absl::string_view line) {
  Words words = absl::StrSplit(line, absl::ByAnyChar(" \t\r\v\f"), absl::SkipEmpty());
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i][0] == '#') words.resize(i);
  }
  return words;
}

absl::Status CheckTenantName(absl::string_view name) {
  if (name == kAnyTenant || name == kNoTenant) {
    return InvalidArgument("the tenant ", Quoted(name),
                           " cannot be defined, because the word stands for any tenant (*) or for "
                           "none (-): choose another name");
  }
  if (name.size() > kMaxTenantBytes) {
    return InvalidArgument("the tenant's name is ", name.size(), " bytes long, the most is ",
                           kMaxTenantBytes);
  }
  if (absl::StrContains(name, '=')) {
    return InvalidArgument("the tenant's name ", Quoted(name),
                           " has an = in it, so it reads like a limit: write tenant NAME "
                           "LIMIT=NUMBER");
  }
  return absl::OkStatus();
}

template <typename Number>
absl::StatusOr<Number> ParseLimit(absl::string_view key, absl::string_view value, int64_t least,
                                  int64_t most) {
  int64_t number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= least && number <= most) {
    return static_cast<Number>(number);
  }
  return InvalidArgument(key, "=", absl::Utf8SafeCEscape(value), ": give a number from ", least,
                         " to ", most);
}

absl::Status SetLimit(absl::string_view word, TenantLimits* limits) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(word, absl::MaxSplits('=', 1));
  const auto [key, value] = parts;
  bool known = absl::StrContains(word, '=');
  bool doubled = false;
  absl::Status status;
  const auto set = [&](auto& limit, int64_t least, int64_t most) {
    doubled = limit.has_value();
    auto parsed = ParseLimit<std::decay_t<decltype(*limit)>>(key, value, least, most);
    if (parsed.ok()) limit = *parsed;
    status = parsed.status();
  };
  if (known && key == "sequences") {
    set(limits->sequences, 0, UINT32_MAX);
  } else if (known && key == "pages") {
    set(limits->pages, 0, UINT32_MAX);
  } else if (known && key == "requests_per_minute") {
    set(limits->requests_per_minute, 1, kMaxRequestsPerMinute);
  } else if (known && key == "priority") {
    set(limits->priority, -kMaxPriority, kMaxPriority);
  } else {
    return InvalidArgument(Quoted(word),
                           " is not a limit: give sequences=NUMBER, pages=NUMBER, "
                           "requests_per_minute=NUMBER or priority=NUMBER");
  }
  if (doubled) return InvalidArgument(key, " is given twice: delete one of them");
  return status;
}

class Parser {
 public:
  absl::Status Add(const Words& words, int line) {
    line_ = line;
    if (words[0] == "tenant") return AddTenant(words);
    if (words[0] == "token") return AddToken(words);
    if (words[0] == "cert") return AddCertificate(words);
    if (words[0] == "unix") return AddUnixSocket(words);
    return InvalidArgument("a line cannot begin with ", Quoted(words[0]),
                           ": begin it with tenant, token, cert, unix or #");
  }

  // Checks the file as a whole. INVALID_ARGUMENT names the line itself.
  absl::StatusOr<AccessRules> Finish() {
    for (const auto& grant : named_) {
      if (rules_.tenants.contains(grant.tenant)) continue;
      return InvalidArgument("line ", grant.line, ": no line defines the tenant ",
                             Quoted(grant.tenant), ": add the line: tenant ",
                             absl::Utf8SafeCEscape(grant.tenant));
    }
    if (rules_.tokens.empty() && rules_.certificates.empty() && !rules_.unix_socket.has_value()) {
      return InvalidArgument(
          "lets no caller in: add a line that begins with token, cert or unix (folioctl token "
          "makes one)");
    }
    return std::move(rules_);
  }

 private:
  absl::Status AddTenant(const Words& words) {
    if (words.size() < 2) return InvalidArgument("the tenant's name is missing");
    if (absl::Status s = CheckTenantName(words[1]); !s.ok()) return s;
    const auto [place, is_new] = rules_.tenants.try_emplace(std::string(words[1]));
    if (!is_new) {
      return InvalidArgument("the tenant ", Quoted(words[1]), " is defined twice: delete one line");
    }
    if (rules_.tenants.size() > kMaxRules) {
      return InvalidArgument("there are more than ", kMaxRules, " tenants, which is the most");
    }
    for (size_t i = 2; i < words.size(); ++i) {
      if (absl::Status s = SetLimit(words[i], &place->second); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status AddToken(const Words& words) {
    absl::string_view digits = words.size() > 1 ? words[1] : "";
    std::optional<std::string> hash;
    if (absl::ConsumePrefix(&digits, "sha256:")) hash = ParseSha256(digits);
    // The word is not shown, because it may be the token itself.
    if (!hash.has_value()) {
      return InvalidArgument(
          "token needs sha256: and the 64 hexadecimal digits of the token's SHA-256, which printf "
          "%s TOKEN | sha256sum prints");
    }
    const auto [other, is_new] = token_lines_.try_emplace(*hash, line_);
    if (!is_new) {
      return InvalidArgument("the token is that of line ", other->second, ": delete one line");
    }
    if (rules_.tokens.size() >= kMaxRules) {
      return InvalidArgument("there are more than ", kMaxRules, " tokens, which is the most");
    }
    auto grant = ReadGrant(words, 2);
    if (!grant.ok()) return grant.status();
    rules_.tokens.push_back({*std::move(hash), *std::move(grant)});
    return absl::OkStatus();
  }

  absl::Status AddCertificate(const Words& words) {
    if (words.size() < 2) return InvalidArgument("the name in the certificate is missing");
    auto grant = ReadGrant(words, 2);
    if (!grant.ok()) return grant.status();
    const auto [place, is_new] =
        rules_.certificates.try_emplace(std::string(words[1]), *std::move(grant));
    if (is_new) return absl::OkStatus();
    return InvalidArgument("the certificate's name ", Quoted(words[1]), " is that of line ",
                           place->second.line, ": delete one line");
  }

  absl::Status AddUnixSocket(const Words& words) {
    if (rules_.unix_socket.has_value()) {
      return InvalidArgument("unix is given on line ", rules_.unix_socket->line,
                             " already: delete one line");
    }
    auto grant = ReadGrant(words, 1);
    if (!grant.ok()) return grant.status();
    rules_.unix_socket = *std::move(grant);
    return absl::OkStatus();
  }

  // The words from `first` on: a tenant and perhaps a right.
  absl::StatusOr<Grant> ReadGrant(const Words& words, size_t first) {
    if (words.size() <= first) {
      return InvalidArgument(
          "a tenant must follow: give its name, * for any tenant, or - for no tenant and a right");
    }
    Grant grant = {.line = line_};
    if (words[first] == kAnyTenant) {
      grant.scope = TenantScope::kAny;
    } else if (words[first] != kNoTenant) {
      grant.scope = TenantScope::kOne;
      grant.tenant = std::string(words[first]);
    }
    if (words.size() > first + 1) {
      const absl::string_view right = words[first + 1];
      if (right != "view" && right != "steer") {
        return InvalidArgument(Quoted(right),
                               " is not a right: give view (to look) or steer (to look and to "
                               "act), or nothing");
      }
      grant.right = right == "view" ? Right::kView : Right::kSteer;
    }
    if (words.size() > first + 2) {
      return InvalidArgument(Quoted(words[first + 2]),
                             " is a word too many: the right ends the line");
    }
    if (grant.scope == TenantScope::kNone && grant.right == Right::kNone) {
      return InvalidArgument(
          "the line gives nothing: write a tenant for -, or add the right view or steer");
    }
    if (grant.scope == TenantScope::kOne) named_.push_back(grant);
    return grant;
  }

  AccessRules rules_;
  int line_ = 0;
  std::vector<Grant> named_;                // those with a tenant's name
  std::map<std::string, int> token_lines_;  // by hash
};

}  // namespace

absl::StatusOr<AccessRules> ParseAccessRules(absl::string_view text) {
  Parser parser;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (FirstInvalidUtf8(line).has_value() || absl::StrContains(line, '\0')) {
      return InvalidArgument("line ", number, ": is not UTF-8 text");
    }
    const Words words = WordsOf(line);
    if (words.empty()) continue;
    if (absl::Status s = parser.Add(words, number); !s.ok()) {
      return InvalidArgument("line ", number, ": ", s.message());
    }
  }
  return parser.Finish();
}

}  // namespace folio::access
