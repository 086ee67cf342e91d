#include "services/access/access_list.h"

#include <optional>
#include <utility>

#include "services/base/invalid_argument.h"
#include "services/runtime/logging.h"

namespace folio::access {
namespace {

absl::StatusOr<AccessRules> RulesOf(const std::string& path, absl::StatusOr<std::string> text) {
  if (!text.ok()) return text.status();
  auto rules = ParseAccessRules(*text);
  if (!rules.ok()) return InvalidArgument(path, ": ", rules.status().message());
  return rules;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AccessList>> AccessList::Open(const std::string& path) {
  std::unique_ptr<AccessList> list(new AccessList(path));
  const absl::MutexLock lock(&list->mutex_);
  auto rules = RulesOf(path, list->file_.Read());
  if (!rules.ok()) return rules.status();
  list->current_ = std::make_shared<const Contents>(Contents{*std::move(rules)});
  return list;
}

std::shared_ptr<const AccessList::Contents> AccessList::Current() {
  const absl::MutexLock lock(&mutex_);
  auto text = file_.ReadIfChanged();
  if (!text.has_value()) return current_;
  auto rules = RulesOf(file_.path(), *std::move(text));
  if (!rules.ok()) {
    log::Error("the access file is wrong, so the old rules count", {{"reason", rules.status()}});
    return current_;
  }
  current_ = std::make_shared<const Contents>(Contents{*std::move(rules), current_->version + 1});
  log::Info("access file read again", {{"path", file_.path()},
                                       {"tenants", current_->rules.tenants.size()},
                                       {"tokens", current_->rules.tokens.size()}});
  return current_;
}

}  // namespace folio::access
