#include "services/cli/json_query.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "services/cli/exit_code.h"
#include "services/cli/query/query_ffi.h"

namespace folio::cli {
namespace {

folio_query_view View(absl::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Copies the library's text and frees it.
std::string Take(folio_query_text given) {
  std::string text;
  if (given.size > 0) text.assign(reinterpret_cast<const char*>(given.data), given.size);
  folio_query_free_text(given);
  return text;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const JsonQuery>> JsonQuery::Compile(absl::string_view expression) {
  folio_query* query = nullptr;
  folio_query_text error{};
  if (folio_query_compile(View(expression), &query, &error) != 0) return UsageError(Take(error));
  return std::shared_ptr<const JsonQuery>(new JsonQuery(query));
}

JsonQuery::~JsonQuery() { folio_query_free(query_); }

absl::StatusOr<std::string> JsonQuery::Apply(absl::string_view json) const {
  folio_query_text result{};
  folio_query_text error{};
  if (folio_query_apply(query_, View(json), &result, &error) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--query does not fit the answer: ", Take(error)));
  }
  return Take(result);
}

}  // namespace folio::cli
