// ManagerGpu starts folio-manager over stand-ins for NVIDIA's libraries.
#ifndef FOLIO_TESTS_MANAGER_MANAGER_GPU_HARNESS_H_
#define FOLIO_TESTS_MANAGER_MANAGER_GPU_HARNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tests/common/temp_dir.h"
#include "tests/manager/child_process.h"

namespace folio::testing {

class ManagerGpu : public ::testing::Test {
 protected:
  struct Setting {
    std::vector<std::string> flags;
    std::vector<std::string> knobs = {};  // see fake_gpu/knobs.h
    std::string driver = FOLIO_FAKE_CUDA;
    std::string nvml = FOLIO_FAKE_NVML;
  };

  // A folder in which libraries are found before the machine's own, and cannot be loaded.
  std::string NotInstalled() {
    for (const char* name : {"libcuda.so.1", "libnvidia-ml.so.1"}) std::ofstream(dir_ / name);
    return dir_.path();
  }
  std::vector<std::string> Command(const Setting& setting) {
    // The second part hides a real driver of this machine from whatever the first does not have.
    std::vector<std::string> argv = {
        "/usr/bin/env",
        "LD_LIBRARY_PATH=" + setting.driver + ":" + setting.nvml + ":" + NotInstalled(),
        "FAKE_GPU_LOG=" + (dir_ / "calls")};
    argv.insert(argv.end(), setting.knobs.begin(), setting.knobs.end());
    argv.insert(argv.end(), {FOLIO_MANAGER_BINARY, "--listen=" + address()});
    argv.insert(argv.end(), setting.flags.begin(), setting.flags.end());
    return argv;
  }
  std::string address() const { return "unix:" + (dir_ / "m.sock"); }
  std::vector<std::string> Calls() const {
    std::ifstream log(dir_ / "calls");
    std::vector<std::string> calls;
    for (std::string line; std::getline(log, line);) calls.push_back(line);
    return calls;
  }
  size_t CallsOf(const std::string& function) const {
    const std::vector<std::string> calls = Calls();
    return std::count(calls.begin(), calls.end(), function);
  }
  std::string Folioctl(const std::vector<std::string>& arguments) const {
    std::vector<std::string> argv = {FOLIO_CTL_BINARY};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    argv.push_back("--address=" + address());
    ChildProcess folioctl(argv);
    EXPECT_EQ(folioctl.Wait(), 0) << folioctl.output();
    return folioctl.output();
  }

  const TempDir dir_;
};

}  // namespace folio::testing

#endif  // FOLIO_TESTS_MANAGER_MANAGER_GPU_HARNESS_H_
