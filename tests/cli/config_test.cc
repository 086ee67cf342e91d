// Named contexts: the file, its commands, and which of several addresses counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/cli/run_cli.h"
#include "tests/common/temp_dir.h"

namespace folio::cli {
namespace {

using ::folio::testing::CliResult;
using ::folio::testing::Folioctl;
using ::folio::testing::TempDir;
using ::testing::HasSubstr;
using ::testing::Not;

class Config : public ::testing::Test {
 protected:
  void SetUp() override { setenv("FOLIO_CONFIG", path_.c_str(), 1); }
  void TearDown() override {
    for (const char* name :
         {"FOLIO_CONFIG", "FOLIO_CONTEXT", "FOLIO_MANAGER_ADDRESS", "FOLIO_TLS", "FOLIO_TLS_CA"}) {
      unsetenv(name);
    }
  }
  // The address that `folioctl pools` tries.
  static std::string Tried(std::vector<std::string> arguments) {
    arguments.emplace_back("pools");
    const std::string error = Folioctl(arguments).err;
    const size_t at = error.find("unix:/tmp/folio-nowhere/");
    return at == std::string::npos ? error : error.substr(at + 24, 1);
  }
  static void Set(const std::string& name, const std::string& socket) {
    const CliResult result =
        Folioctl({"config", "set-context", name, "--manager", "unix:/tmp/folio-nowhere/" + socket});
    EXPECT_EQ(result.code, 0) << result.err;
  }

  // The file of authorities that `folioctl pools` cannot read, or what it says instead.
  static std::string Ca(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"pools", "--address", "127.0.0.1:1"});
    const std::string error = Folioctl(arguments).err;
    const size_t at = error.find("/nowhere/");
    return at == std::string::npos ? error : error.substr(at + 9, 1);
  }

  const TempDir directory_;
  const std::string path_ = directory_ / "deep/folio.json";
};

TEST_F(Config, AFlagComesBeforeTheEnvironmentAndThatBeforeTheCurrentContext) {
  Set("a", "a");
  Set("b", "b");
  EXPECT_EQ(Tried({}), "a");  // the first one became the current one
  EXPECT_EQ(Folioctl({"config", "use-context", "b"}).code, 0);
  EXPECT_EQ(Tried({}), "b");
  setenv("FOLIO_CONTEXT", "a", 1);
  EXPECT_EQ(Tried({}), "a");
  setenv("FOLIO_MANAGER_ADDRESS", "unix:/tmp/folio-nowhere/e", 1);
  EXPECT_EQ(Tried({}), "e");
  EXPECT_EQ(Tried({"--context", "b"}), "b");
  EXPECT_EQ(Tried({"--context", "b", "--address", "unix:/tmp/folio-nowhere/f"}), "f");
}

TEST_F(Config, ShowsAndDeletesContexts) {
  EXPECT_THAT(Folioctl({"config", "get-contexts"}).out, HasSubstr("no context"));
  Set("lab", "x");
  EXPECT_EQ(Folioctl({"config", "set-context", "lab", "--call_timeout", "30s"}).code, 0);
  EXPECT_EQ(Folioctl({"config", "get-contexts"}).out,
            "current  name  worker  manager                    timeout  tls\n"
            "*        lab   -       unix:/tmp/folio-nowhere/x  30s      -\n");
  EXPECT_EQ(Folioctl({"config", "view", "--output", "yaml"}).out,
            "current: lab\ncontexts:\n  lab:\n    manager: \"unix:/tmp/folio-nowhere/x\"\n"
            "    timeout: \"30s\"\n");
  EXPECT_EQ(Folioctl({"config", "current-context"}).out, "lab\n");
  EXPECT_EQ(Folioctl({"config", "delete-context", "lab"}).code, 0);
  EXPECT_EQ(Folioctl({"config", "current-context"}).code, 4);
  EXPECT_EQ(Folioctl({"config", "use-context", "lab"}).code, 4);
}

TEST_F(Config, EncryptionComesFromTheSamePlacesAsAddresses) {
  EXPECT_THAT(Ca({}), HasSubstr("cannot reach"));
  EXPECT_EQ(Ca({"--tls_ca", "/nowhere/f"}), "f");
  for (const char* name : {"a", "b"}) {
    const std::string file = std::string("/nowhere/") + name;
    EXPECT_EQ(Folioctl({"config", "set-context", name, "--tls_ca", file}).code, 0);
  }
  EXPECT_EQ(Ca({}), "a");
  setenv("FOLIO_TLS_CA", "/nowhere/e", 1);
  EXPECT_EQ(Ca({}), "e");
  EXPECT_EQ(Ca({"--context", "b"}), "b");
  EXPECT_EQ(Ca({"--context", "b", "--tls_ca", "/nowhere/f"}), "f");
  setenv("FOLIO_TLS", "0", 1);
  EXPECT_THAT(Ca({}), HasSubstr("cannot reach")) << "switched off, for what comes after it alone";
  EXPECT_EQ(Ca({"--tls"}), "e");
  EXPECT_EQ(Ca({"--tls_ca", "/nowhere/f"}), "f");
  EXPECT_EQ(Ca({"--context", "b"}), "b");
  EXPECT_THAT(Ca({"--context", "b", "--tls=false"}), HasSubstr("cannot reach"));
  setenv("FOLIO_TLS", "maybe", 1);
  const CliResult wrong = Folioctl({"pools"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("FOLIO_TLS"));
  EXPECT_EQ(Folioctl({"pools", "--tls=perhaps"}).code, 2);
  EXPECT_EQ(Folioctl({"config", "set-context", "a", "--tls=perhaps"}).code, 2);
}

TEST_F(Config, KeepsTheFlagsThatEncrypt) {
  EXPECT_EQ(Folioctl({"config", "set-context", "lab", "--worker", "10.0.0.7:7001", "--tls_ca",
                      "ca.pem", "--tls_cert", "/a/cert", "--tls_key", "/a/key", "--tls_server_name",
                      "folio.example"})
                .code,
            0);
  const std::string view = Folioctl({"config", "view"}).out;
  for (const char* part : {R"("tls_cert": "/a/cert")", R"("tls_key": "/a/key")",
                           R"("tls_server_name": "folio.example")", R"(/ca.pem")"}) {
    EXPECT_THAT(view, HasSubstr(part));
  }
  EXPECT_THAT(view, HasSubstr(R"("tls_ca": "/)")) << "of use from every folder";
  EXPECT_THAT(Folioctl({"config", "get-contexts"}).out, HasSubstr("/ca.pem"));
  EXPECT_EQ(Folioctl({"config", "set-context", "lab", "--tls_ca", "", "--tls_cert", "", "--tls_key",
                      "", "--tls_server_name", ""})
                .code,
            0);
  EXPECT_THAT(Folioctl({"config", "view"}).out, Not(HasSubstr("tls")));
  EXPECT_EQ(Folioctl({"config", "set-context", "public", "--tls"}).code, 0);
  EXPECT_THAT(Folioctl({"config", "get-contexts"}).out, HasSubstr("system"));
}

TEST_F(Config, SaysWhatIsWrongWithTheFile) {
  Set("lab", "x");
  const CliResult missing = Folioctl({"--context", "nowhere", "pools"});
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(missing.err, HasSubstr("there are lab"));
  for (const char* text : {"{", "[]", R"({"contexts": {"a": {"port": "1"}}})",
                           R"({"contexts": {"a": {"timeout": "soon"}}})",
                           R"({"contexts": {"a": {"tls": "yes"}}})", R"({"x": 1})"}) {
    std::ofstream(path_) << text;
    const CliResult result = Folioctl({"pools"});
    EXPECT_EQ(result.code, 8) << text;
    EXPECT_THAT(result.err, HasSubstr(path_)) << text;
    // Help needs no file.
    EXPECT_EQ(Folioctl({"completion", "bash"}).code, 0);
  }
}

TEST_F(Config, WrongUse) {
  EXPECT_EQ(Folioctl({"config"}).code, 2);
  EXPECT_EQ(Folioctl({"config", "set-context", "a", "--call_timeout", "soon"}).code, 2);
  EXPECT_EQ(Folioctl({"config", "pools"}).code, 2);
}

TEST_F(Config, AFileThatIsNestedTooDeeplyIsRefused) {
  ASSERT_EQ(Folioctl({"config", "set-context", "a", "--manager", "unix:/a"}).code, 0);
  for (const size_t levels : {16U, 17U, 200'000U}) {
    std::ofstream(path_) << R"({"contexts": )" << std::string(levels - 1, '[')
                         << std::string(levels - 1, ']') << "}";
    const std::string error = Folioctl({"pools"}).err;
    EXPECT_EQ(error.find("nested deeper than 16 levels") != std::string::npos, levels > 16)
        << levels << ": " << error;
  }
}

}  // namespace
}  // namespace folio::cli
