// Runs the tests where there is a device; see need_device.h for elsewhere.
#include <gtest/gtest.h>

#include "tests/gpu/need_device.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!testing::GTEST_FLAG(list_tests)) {
    if (const int code = folio::testing::NeedDevice(); code != 0) return code;
  }
  return RUN_ALL_TESTS();
}
