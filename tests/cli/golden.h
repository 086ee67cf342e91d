// ExpectGolden compares a text with a file of tests/cli/golden. With FOLIO_UPDATE_GOLDEN=1 it
// writes the file instead, and the difference is to be read before it is committed.
#ifndef FOLIO_TESTS_CLI_GOLDEN_H_
#define FOLIO_TESTS_CLI_GOLDEN_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace folio::testing {

inline void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(FOLIO_GOLDEN_DIR) + "/" + name;
  if (std::getenv("FOLIO_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is not there: run with FOLIO_UPDATE_GOLDEN=1";
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

}  // namespace folio::testing

#endif  // FOLIO_TESTS_CLI_GOLDEN_H_
