// JsonQuery is an expression of JMESPath, the query language of --query. It is compiled once and
// applied to answers, which are texts of JSON. The crate `jmespath` does the work (query/).
#ifndef FOLIO_SERVICES_CLI_JSON_QUERY_H_
#define FOLIO_SERVICES_CLI_JSON_QUERY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct folio_query;

namespace folio::cli {

// Several threads may use one.
class JsonQuery {
 public:
  // A usage error (exit_code.h) that has the place of the mistake and what to write there.
  static absl::StatusOr<std::shared_ptr<const JsonQuery>> Compile(absl::string_view expression);
  ~JsonQuery();
  JsonQuery(const JsonQuery&) = delete;
  JsonQuery& operator=(const JsonQuery&) = delete;

  // The result as JSON in one line. INVALID_ARGUMENT: a function does not fit what `json` has.
  absl::StatusOr<std::string> Apply(absl::string_view json) const;

 private:
  explicit JsonQuery(folio_query* query) : query_(query) {}

  folio_query* const query_;
};

}  // namespace folio::cli

#endif  // FOLIO_SERVICES_CLI_JSON_QUERY_H_
