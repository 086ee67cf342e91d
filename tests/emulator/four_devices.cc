// Gives the tests of a program four emulated devices, so that ranks have one each.
#include <cstdlib>

namespace folio::emulate {
namespace {

[[maybe_unused]] const int kSet = setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3", /*overwrite=*/0);

}  // namespace
}  // namespace folio::emulate
