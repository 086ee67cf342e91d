// This header allocates the emulator's device memory, for its own sources.
#ifndef FOLIO_TESTS_EMULATOR_BLOCKS_H_
#define FOLIO_TESTS_EMULATOR_BLOCKS_H_

#include <cstddef>

namespace folio::emulate {

// Null if there is no memory. The block is shared with other processes on request while
// `share_memory` is set.
void* NewBlock(size_t bytes);
void FreeBlock(void* memory);

}  // namespace folio::emulate

#endif  // FOLIO_TESTS_EMULATOR_BLOCKS_H_
