// TempDir is a test's own directory with a path that is short enough for sockets. Destroying it
// removes it with its contents.
#ifndef FOLIO_TESTS_COMMON_TEMP_DIR_H_
#define FOLIO_TESTS_COMMON_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "services/base/check.h"

namespace folio::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = "/tmp/folio-test.XXXXXX";
    FOLIO_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_COMMON_TEMP_DIR_H_
