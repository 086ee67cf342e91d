// This header reads the files that make_vectors.py wrote. README.md describes their contents.
#ifndef FOLIO_TESTS_PARITY_VECTORS_H_
#define FOLIO_TESTS_PARITY_VECTORS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/views.h"

namespace folio::parity {

// The positions that one press keeps of one shape under one budget, ascending.
struct Case {
  std::string press;  // "knorm", "keydiff", "snapkv", "random", "streaming_llm"
  uint32_t budget = 0;
  std::vector<std::vector<uint32_t>> per_head;  // by the press itself, per KV head
  std::vector<uint32_t> head_mean;              // by the press' scores averaged over the KV heads
  std::vector<uint32_t> folio;                  // by Folio's definition, from kvpress' numbers
};

struct Vectors {
  std::string name;
  uint32_t tokens = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t window = 0;  // queries that snapkv looks at
  uint32_t sink = 0;    // tokens protected in Case::folio, and streaming_llm's sinks
  uint32_t recent = 0;  // likewise; in snapkv the window, if it is longer
  std::vector<kernels::bf16> keys = {};     // [kv_heads][tokens][head_dim]
  std::vector<kernels::bf16> values = {};   // likewise
  std::vector<kernels::bf16> queries = {};  // [window][heads][head_dim], of the last tokens
  // The score() of each press, [kv_heads][tokens], and "window_attention", which is Folio's for
  // snapkv.
  std::map<std::string, std::vector<float>> scores = {};
  std::vector<Case> cases = {};
};

// One per shape. The program ends if a file is missing or has a wrong length.
std::vector<Vectors> ReadVectors();

}  // namespace folio::parity

#endif  // FOLIO_TESTS_PARITY_VECTORS_H_
