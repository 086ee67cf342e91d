#include "tests/parity/vectors.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "nlohmann/json.hpp"
#include "services/base/check.h"

namespace folio::parity {
namespace {

static_assert(std::endian::native == std::endian::little);

std::string ReadFile(const std::string& name) {
  std::ifstream file(std::string(FOLIO_PARITY_DIR "/") + name, std::ios::binary);
  FOLIO_CHECK(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

// The next `count` elements of `bytes`, from `at` on.
template <typename T>
std::vector<T> Take(const std::string& bytes, size_t& at, size_t count) {
  FOLIO_CHECK(at + count * sizeof(T) <= bytes.size());
  std::vector<T> values(count);
  std::memcpy(values.data(), bytes.data() + at, count * sizeof(T));
  at += count * sizeof(T);
  return values;
}

void ReadTensors(Vectors& v) {
  const std::string bytes = ReadFile(v.name + ".bin");
  size_t at = 0;
  const size_t rows = size_t{v.kv_heads} * v.tokens;
  v.keys = Take<kernels::bf16>(bytes, at, rows * v.head_dim);
  v.values = Take<kernels::bf16>(bytes, at, rows * v.head_dim);
  v.queries = Take<kernels::bf16>(bytes, at, size_t{v.window} * v.heads * v.head_dim);
  for (const char* name : {"knorm", "keydiff", "snapkv", "random", "window_attention"}) {
    v.scores[name] = Take<float>(bytes, at, rows);
  }
  FOLIO_CHECK(at == bytes.size());
}

}  // namespace

std::vector<Vectors> ReadVectors() {
  const nlohmann::json file = nlohmann::json::parse(ReadFile("vectors.json"));
  std::vector<Vectors> all;
  for (const nlohmann::json& shape : file.at("shapes")) {
    Vectors v{.name = shape.at("name"),
              .tokens = shape.at("tokens"),
              .heads = shape.at("heads"),
              .kv_heads = shape.at("kv_heads"),
              .head_dim = shape.at("head_dim"),
              .window = shape.at("window"),
              .sink = shape.at("sink"),
              .recent = shape.at("recent")};
    for (const nlohmann::json& c : shape.at("cases")) {
      v.cases.push_back({.press = c.at("press"),
                         .budget = c.at("budget"),
                         .per_head = c.at("kvpress"),
                         .head_mean = c.at("head_mean"),
                         .folio = c.at("folio")});
    }
    ReadTensors(v);
    all.push_back(std::move(v));
  }
  return all;
}

}  // namespace folio::parity
