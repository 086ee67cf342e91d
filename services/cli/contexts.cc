#include "services/cli/contexts.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/cli/options.h"

namespace folio::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Setting {
  const char* name;
  std::string NamedContext::*value;
};
constexpr std::array<Setting, 10> kSettings = {{{"worker", &NamedContext::worker},
                                                {"manager", &NamedContext::manager},
                                                {"timeout", &NamedContext::timeout},
                                                {"tls", &NamedContext::tls},
                                                {"tls_ca", &NamedContext::tls_ca},
                                                {"tls_cert", &NamedContext::tls_cert},
                                                {"tls_key", &NamedContext::tls_key},
                                                {"tls_server_name", &NamedContext::tls_server_name},
                                                {"token", &NamedContext::token},
                                                {"token_file", &NamedContext::token_file}}};

// Contexts need three levels. Code that walks a value may call itself for each.
constexpr int kMostLevels = 16;

absl::Status Wrong(const std::string& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("the configuration ", ContextFile::Path(), " is wrong: ", what));
}

absl::Status Unwritable(const std::string& path, int error) {
  const std::string why = absl::StrCat(path, " cannot be written: ", std::strerror(error));
  return error == EACCES || error == EPERM ? absl::PermissionDeniedError(why)
                                           : absl::UnknownError(why);
}

absl::StatusOr<NamedContext> ParseContext(const std::string& name, const Json& json) {
  if (!json.is_object()) return Wrong(absl::StrCat("context \"", name, "\" is not an object"));
  NamedContext context;
  for (const auto& [key, value] : json.items()) {
    bool known = false;
    for (const Setting& setting : kSettings) {
      if (key != setting.name) continue;
      if (!value.is_string()) {
        return Wrong(absl::StrCat("\"", key, "\" of context \"", name, "\" is not a string"));
      }
      context.*setting.value = value.get<std::string>();
      known = true;
    }
    if (!known) {
      return Wrong(absl::StrCat("context \"", name, "\" has the unknown setting \"", key, "\""));
    }
  }
  absl::Duration timeout;
  if (!context.timeout.empty() && !ParseTimeout(context.timeout, &timeout)) {
    return Wrong(absl::StrCat("\"timeout\" of context \"", name, "\" is \"", context.timeout,
                              "\", which is not a duration like 30s"));
  }
  if (!context.tls.empty() && context.tls != "true" && context.tls != "false") {
    return Wrong(absl::StrCat("\"tls\" of context \"", name, "\" is \"", context.tls,
                              "\", which is neither \"true\" nor \"false\""));
  }
  return context;
}

}  // namespace

std::string Environment(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : std::move(otherwise);
}

bool TlsSettings::says_something() const {
  return !(tls.empty() && tls_ca.empty() && tls_cert.empty() && tls_key.empty() &&
           tls_server_name.empty());
}

std::string ContextFile::Path() {
  if (const std::string file = Environment("FOLIO_CONFIG"); !file.empty()) return file;
  if (const std::string home = Environment("XDG_CONFIG_HOME"); !home.empty()) {
    return home + "/folio/config.json";
  }
  const std::string home = Environment("HOME");
  return home.empty() ? "" : home + "/.config/folio/config.json";
}

absl::StatusOr<ContextFile> ContextFile::Read() {
  ContextFile result;
  const std::string path = Path();
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(path, error)) return result;
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    return absl::PermissionDeniedError(absl::StrCat("the configuration ", path, " cannot be read"));
  }
  bool deep = false;
  const auto watch = [&deep](int level, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    deep |= opens && level >= kMostLevels;
    return !deep;  // so that no value is kept from there on
  };
  const Json json = Json::parse(text.str(), watch, /*allow_exceptions=*/false);
  if (deep) return Wrong(absl::StrCat("it is nested deeper than ", kMostLevels, " levels"));
  if (json.is_discarded() || !json.is_object()) return Wrong("it is not an object in JSON");
  for (const auto& [key, value] : json.items()) {
    if (key == "current" && value.is_string()) {
      result.current = value.get<std::string>();
    } else if (key == "contexts" && value.is_object()) {
      for (const auto& [name, one] : value.items()) {
        absl::StatusOr<NamedContext> context = ParseContext(name, one);
        if (!context.ok()) return context.status();
        result.contexts[name] = *std::move(context);
      }
    } else {
      return Wrong(absl::StrCat("\"", key, "\" is not \"current\" (a name) or \"contexts\" ",
                                "(an object)"));
    }
  }
  return result;
}

Json ContextFile::ToJson() const {
  Json all = Json::object();
  for (const auto& [name, context] : contexts) {
    Json one = Json::object();
    for (const Setting& setting : kSettings) {
      if (!(context.*setting.value).empty()) one[setting.name] = context.*setting.value;
    }
    all[name] = std::move(one);
  }
  Json json = Json::object();
  if (!current.empty()) json["current"] = current;
  json["contexts"] = std::move(all);
  return json;
}

absl::Status ContextFile::Write() const {
  const std::string path = Path();
  if (path.empty()) {
    return absl::FailedPreconditionError(
        "there is no place for the configuration: set FOLIO_CONFIG or HOME");
  }
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (!directory.empty()) std::filesystem::create_directories(directory, error);
  std::string fresh = path + ".XXXXXX";
  const int file = mkstemp(fresh.data());  // with mode 0600
  if (file < 0) return Unwritable(path, errno);
  const std::string text =
      absl::StrCat(ToJson().dump(2, ' ', false, nlohmann::json::error_handler_t::replace), "\n");
  const bool written = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const bool whole = close(file) == 0 && written && std::rename(fresh.c_str(), path.c_str()) == 0;
  if (whole) return absl::OkStatus();
  const int why = errno;
  unlink(fresh.c_str());
  return Unwritable(path, why);
}

absl::StatusOr<NamedContext> ContextFile::Find(const std::string& name) const {
  const auto found = contexts.find(name);
  if (found != contexts.end()) return found->second;
  const auto name_of = [](std::string* out, const auto& one) { *out += one.first; };
  const std::string known =
      contexts.empty() ? "there is none" : "there are " + absl::StrJoin(contexts, ", ", name_of);
  return absl::NotFoundError(absl::StrCat("no context \"", name, "\" in ", Path(), ": ", known));
}

}  // namespace folio::cli
