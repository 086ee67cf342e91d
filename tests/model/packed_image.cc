#include "tests/model/packed_image.h"

#include <bit>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/e4m3.h"
#include "tests/testing/quantize.h"

namespace folio::model {
namespace {

using ::folio::testing::Encode;
using ::folio::testing::HfImage;
using ::folio::testing::HfTensor;
using nlohmann::json;

// Draws small numbers.
class Draws {
 public:
  uint32_t operator()(uint32_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) % below;
  }

 private:
  uint64_t state_ = 11;
};

// The word of eight codes, less `less`.
std::string Word(const std::function<uint32_t(size_t)>& code, bool awq, uint32_t less = 0) {
  constexpr size_t kPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};
  uint32_t word = 0;
  for (size_t i = 0; i < 8; ++i) word |= code(i) << (4 * (awq ? kPlaces[i] : i));
  word -= less;
  return {reinterpret_cast<const char*>(&word), sizeof word};
}

struct Int4 {
  size_t rows, columns, groups;
  std::vector<uint32_t> codes;    // [rows, columns]
  std::vector<uint32_t> zeros;    // [rows, groups]
  std::vector<float> scales;      // [rows, groups]
  std::vector<int32_t> group_of;  // [columns]

  uint32_t code(size_t row, size_t column) const { return codes[row * columns + column]; }
  uint32_t zero(size_t row, size_t group) const { return zeros[row * groups + group]; }
  float number(size_t row, size_t column) const {
    const auto group = static_cast<size_t>(group_of[column]);
    const int steps = static_cast<int>(code(row, column)) - static_cast<int>(zero(row, group));
    return static_cast<float>(steps) * scales[row * groups + group];
  }
};

Int4 Drawn(size_t rows, size_t columns, Packing packing, uint32_t group, Draws& draws) {
  Int4 m{rows, columns, group == 0 ? 1 : columns / group, {}, {}, {}, {}};
  for (size_t i = 0; i < rows * columns; ++i) m.codes.push_back(draws(16));
  for (size_t i = 0; i < rows * m.groups; ++i) {
    m.zeros.push_back(packing == Packing::kPackQuantized ? 8 : draws(16));
    m.scales.push_back(std::bit_cast<float>((118 + draws(4)) << 23));
  }
  for (size_t i = 0; i < columns; ++i) {
    m.group_of.push_back(static_cast<int32_t>(i / (columns / m.groups)));
  }
  for (size_t i = columns; packing == Packing::kGptqOrder && i > 1; --i) {
    std::swap(m.group_of[i - 1], m.group_of[draws(static_cast<uint32_t>(i))]);
  }
  return m;
}

// Rows of words along rows: [across, rows / 8], eight rows in each word.
std::string WordsOfRows(const Int4& m, size_t across, bool awq, uint32_t less,
                        const std::function<uint32_t(size_t, size_t)>& value) {
  std::string bytes;
  for (size_t i = 0; i < across; ++i) {
    for (size_t row = 0; row < m.rows; row += 8) {
      bytes += Word([&](size_t at) { return value(row + at, i); }, awq, less);
    }
  }
  return bytes;
}

std::string Transposed(const Int4& m) {
  std::vector<float> scales;
  for (size_t group = 0; group < m.groups; ++group) {
    for (size_t row = 0; row < m.rows; ++row) scales.push_back(m.scales[row * m.groups + group]);
  }
  return Encode(StorageType::kF16, scales);
}

void AddQweight(const Int4& m, Packing packing, const std::string& base, HfImage& image) {
  const bool awq = packing == Packing::kAwq;
  const uint32_t less = awq || packing == Packing::kGptqV2 ? 0 : 0x11111111;
  const auto code = [&](size_t row, size_t column) { return m.code(row, column); };
  const auto zero = [&](size_t row, size_t group) { return m.zero(row, group); };
  std::string codes;
  if (awq) {
    codes = WordsOfRows(m, m.columns, true, 0, code);
  } else {
    for (size_t column = 0; column < m.columns; column += 8) {
      for (size_t row = 0; row < m.rows; ++row) {
        codes += Word([&](size_t at) { return code(row, column + at); }, false);
      }
    }
  }
  const std::vector<uint64_t> shape = awq ? std::vector<uint64_t>{m.columns, m.rows / 8}
                                          : std::vector<uint64_t>{m.columns / 8, m.rows};
  image.tensors.push_back({base + ".qweight", "I32", shape, codes});
  image.tensors.push_back(
      {base + ".qzeros", "I32", {m.groups, m.rows / 8}, WordsOfRows(m, m.groups, awq, less, zero)});
  image.tensors.push_back({base + ".scales", "F16", {m.groups, m.rows}, Transposed(m)});
  if (awq) return;
  image.tensors.push_back({base + ".g_idx",
                           "I32",
                           {m.columns},
                           {reinterpret_cast<const char*>(m.group_of.data()), 4 * m.columns}});
}

void AddWeightPacked(const Int4& m, bool with_zeros, const std::string& base, HfImage& image) {
  std::string codes;
  for (size_t row = 0; row < m.rows; ++row) {
    for (size_t column = 0; column < m.columns; column += 8) {
      codes += Word([&](size_t at) { return m.code(row, column + at); }, false);
    }
  }
  image.tensors.push_back({base + ".weight_packed", "I32", {m.rows, m.columns / 8}, codes});
  image.tensors.push_back(
      {base + ".weight_scale", "F32", {m.rows, m.groups}, Encode(StorageType::kF32, m.scales)});
  const uint64_t shape[] = {m.rows, m.columns};
  image.tensors.push_back(
      {base + ".weight_shape", "I64", {2}, {reinterpret_cast<const char*>(shape), sizeof shape}});
  if (!with_zeros) return;
  std::string zeros;
  for (size_t row = 0; row < m.rows; row += 8) {
    for (size_t group = 0; group < m.groups; ++group) {
      zeros += Word([&](size_t at) { return m.zero(row + at, group); }, false);
    }
  }
  image.tensors.push_back({base + ".weight_zero_point", "I32", {m.rows / 8, m.groups}, zeros});
}

std::vector<float> AddBlocks(size_t rows, size_t columns, uint32_t side, const std::string& base,
                             Draws& draws, HfImage& image) {
  const size_t across = (columns + side - 1) / side;
  std::vector<float> scales;
  for (size_t i = 0; i < (rows + side - 1) / side * across; ++i) {
    scales.push_back(std::bit_cast<float>((118 + draws(4)) << 23));
  }
  std::vector<float> numbers;
  std::string codes;
  for (size_t i = 0; i < rows * columns; ++i) {
    const kernels::e4m3 code{static_cast<uint8_t>(draws(2) * 128 + draws(0x70))};
    codes += static_cast<char>(code.bits);
    numbers.push_back(code.ToFloat() * scales[i / columns / side * across + i % columns / side]);
  }
  image.tensors.push_back({base + ".weight", "F8_E4M3", {rows, columns}, codes});
  image.tensors.push_back({base + ".weight_scale_inv",
                           "F32",
                           {(rows + side - 1) / side, across},
                           Encode(StorageType::kF32, scales)});
  return numbers;
}

json Config(Packing packing, uint32_t group) {
  const json size = group == 0 ? json(-1) : json(group);
  switch (packing) {
    case Packing::kAwq:
      return {{"quant_method", "awq"},
              {"bits", 4},
              {"group_size", size},
              {"version", "gemm"},
              {"zero_point", true}};
    case Packing::kGptq:
    case Packing::kGptqOrder:
    case Packing::kGptqV2:
      return {{"quant_method", "gptq"},
              {"bits", 4},
              {"group_size", size},
              {"sym", false},
              {"desc_act", packing == Packing::kGptqOrder},
              {"checkpoint_format", packing == Packing::kGptqV2 ? "gptq_v2" : "gptq"}};
    case Packing::kBlocks:
      return {{"quant_method", "fp8"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {group, group}}};
    case Packing::kPackQuantized:
    case Packing::kPackQuantizedZeros:
      break;
  }
  const json weights = {{"type", "int"},
                        {"num_bits", 4},
                        {"strategy", group == 0 ? "channel" : "group"},
                        {"group_size", group == 0 ? json() : json(group)},
                        {"symmetric", packing == Packing::kPackQuantized}};
  return {{"quant_method", "compressed-tensors"},
          {"format", "pack-quantized"},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}

}  // namespace

PackedPair MakePackedPair(Packing packing, uint32_t group,
                          const ::folio::testing::TinyOptions& options) {
  PackedPair pair;
  pair.plain = ::folio::testing::TinyModel(options).Hf(StorageType::kF32);
  pair.packed = pair.plain;
  pair.packed.tensors.clear();
  pair.packed.config["quantization_config"] = Config(packing, group);
  Draws draws;
  for (HfTensor& tensor : pair.plain.tensors) {
    if (!absl::EndsWith(tensor.name, "_proj.weight")) {
      pair.packed.tensors.push_back(tensor);
      continue;
    }
    const std::string base = tensor.name.substr(0, tensor.name.size() - sizeof(".weight") + 1);
    const size_t rows = tensor.shape[0];
    const size_t columns = tensor.shape[1];
    std::vector<float> numbers;
    if (packing == Packing::kBlocks) {
      numbers = AddBlocks(rows, columns, group, base, draws, pair.packed);
    } else {
      const Int4 matrix = Drawn(rows, columns, packing, group, draws);
      for (size_t i = 0; i < rows * columns; ++i) {
        numbers.push_back(matrix.number(i / columns, i % columns));
      }
      if (packing == Packing::kPackQuantized || packing == Packing::kPackQuantizedZeros) {
        AddWeightPacked(matrix, packing == Packing::kPackQuantizedZeros, base, pair.packed);
      } else {
        AddQweight(matrix, packing, base, pair.packed);
      }
    }
    tensor.bytes = Encode(StorageType::kF32, numbers);
  }
  return pair;
}

}  // namespace folio::model
