// What a dry run of an eviction takes in memory. The manager must not grow with the layers of a
// long sequence.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "services/cache/inspector.h"
#include "tests/cache/coordinator_harness.h"
#include "tests/cache/worker_sequence.h"

namespace {

std::atomic<size_t> g_live = 0, g_most = 0;

void* Allocate(size_t bytes) {
  void* block = std::malloc(bytes);
  if (block == nullptr) throw std::bad_alloc();
  const size_t live = g_live += malloc_usable_size(block);
  g_most = std::max(g_most.load(), live);
  return block;
}

void Free(void* block) {
  if (block != nullptr) g_live -= malloc_usable_size(block);
  std::free(block);
}

}  // namespace

// The program's own allocations, counted.
void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* block) noexcept { Free(block); }
void operator delete[](void* block) noexcept { Free(block); }
void operator delete(void* block, size_t) noexcept { Free(block); }
void operator delete[](void* block, size_t) noexcept { Free(block); }

namespace folio::cache {
namespace {

TEST(ExplainMemory, IsThatOfOneLayer) {
  constexpr uint32_t kLayers = 32, kHeads = 32, kPageTokens = 16, kTokens = 2048;
  constexpr size_t kLayerBytes = size_t{kTokens} * kHeads * sizeof(float);
  Harness harness({.pages = kLayers * (kTokens / kPageTokens + 2),
                   .layers = kLayers,
                   .kv_heads = kHeads,
                   .page_tokens = kPageTokens});
  const WorkerId worker = harness.coordinator->AddWorker("worker");
  const auto own = Cache(policy::PagedEvictionSpec(), kTokens, kPageTokens, kPageTokens);
  WorkerSequence sequence = MustOpen(*harness.coordinator, Request(worker, kTokens, 16, own));
  ASSERT_TRUE(sequence.Commit(kTokens).ok());
  for (const uint32_t budget : {kTokens, kTokens / 2}) {
    const size_t before = g_live;
    g_most = before;
    const auto explained = harness.inspector().Explain(
        sequence.id, Cache(policy::PagedEvictionSpec(), budget, kPageTokens, kPageTokens));
    ASSERT_TRUE(explained.ok()) << explained.status();
    ASSERT_EQ(explained->layers.size(), kLayers);
    const size_t answer = g_live - before;
    EXPECT_GE(g_most - before, kLayerBytes) << "nothing was measured";
    // What a policy itself takes is of the size of a layer as well.
    EXPECT_LT(g_most - before - answer, 4 * kLayerBytes);
  }
}

}  // namespace
}  // namespace folio::cache
