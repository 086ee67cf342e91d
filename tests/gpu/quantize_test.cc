// Rows of activations in E4M3 against the host's, to the bit.
#include "kernels/cuda/ops/ops.h"
#include "tests/gpu/device_data.h"

namespace folio::kernels::cuda {
namespace {

constexpr uint32_t kLengths[] = {16, 48, 576, 2048, 2064, 14336};

class GpuQuantizeTest : public StoredTest {};

TEST_P(GpuQuantizeTest, RowsAreTheHostsToTheBit) {
  const uint32_t rows = 5;
  for (const uint32_t cols : kLengths) {
    const uint32_t stride = cols + 16;
    Stored in = RoundAll(type(), RandomFloats(random_, rows * stride, 3.0f));
    std::fill_n(in.begin() + stride, cols, uint16_t{0});               // a row of zeros
    in[2 * stride] = 0x7fff;                                           // NaN
    for (uint32_t i = 0; i < 8; ++i) in[3 * stride + i] = 0x0001 + i;  // subnormal
    const OnDevice<uint16_t> device_in(in);
    const OnDevice<uint8_t> codes(std::vector<uint8_t>(rows * stride, 0x55));
    const OnDevice<float> scales(std::vector<float>(rows + 1, -1));
    const Tensor out{codes.data(), DataType::kE4M3, rows, cols, stride, scales.data()};
    const absl::Status status =
        QuantizeRows(nullptr, {device_in.data(), type(), rows, cols, stride}, out);
    ASSERT_TRUE(status.ok()) << status;
    std::vector<uint8_t> want(rows * stride, 0x55);
    std::vector<float> want_scales(rows + 1, -1);
    for (uint32_t row = 0; row < rows; ++row) {
      std::vector<float> numbers;
      for (uint32_t i = 0; i < cols; ++i) numbers.push_back(Value(type(), in[row * stride + i]));
      std::vector<e4m3> quantized(cols);
      want_scales[row] = QuantizeRow(numbers.data(), cols, quantized.data());
      for (uint32_t i = 0; i < cols; ++i) want[row * stride + i] = quantized[i].bits;
    }
    std::vector<uint8_t> got = codes.Read();
    want[2 * stride] |= 0x80;  // the sign of NaN
    got[2 * stride] |= 0x80;
    EXPECT_EQ(got, want) << "rows of " << cols;
    EXPECT_EQ(scales.Read(), want_scales) << "rows of " << cols;
  }
}

// All numbers of both types beside the largest code, so that the scale is 1.
TEST_P(GpuQuantizeTest, EveryNumberIsRoundedAsOnTheHost) {
  constexpr uint32_t kRows = 64;
  constexpr uint32_t kCols = 1040;
  Stored in(kRows * kCols, Round(type(), e4m3::kMax));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float x = Value(type(), static_cast<uint16_t>(bits));
    if (std::fabs(x) <= e4m3::kMax) in[bits / 1024 * kCols + bits % 1024] = bits;
  }
  const OnDevice<uint16_t> device_in(in);
  const OnDevice<uint8_t> codes(std::vector<uint8_t>(in.size()));
  const OnDevice<float> scales{std::vector<float>(kRows)};
  ASSERT_TRUE(QuantizeRows(nullptr, {device_in.data(), type(), kRows, kCols, kCols},
                           {codes.data(), DataType::kE4M3, kRows, kCols, kCols, scales.data()})
                  .ok());
  EXPECT_EQ(scales.Read(), std::vector<float>(kRows, 1.0f));
  const std::vector<uint8_t> got = codes.Read();
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(got[i], e4m3::Round(Value(type(), in[i])).bits) << Value(type(), in[i]);
  }
}

TEST_P(GpuQuantizeTest, WhatIsNotServedIsSaid) {
  const OnDevice<uint8_t> some(std::vector<uint8_t>(512));
  const OnDevice<float> scales(std::vector<float>(8));
  const auto refusal = [&](const ConstTensor& in, const Tensor& out) {
    const absl::Status status = QuantizeRows(nullptr, in, out);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const ConstTensor in(some.data(), type(), 2, 16, 16);
  const Tensor out{some.data(), DataType::kE4M3, 2, 16, 16, scales.data()};
  const auto said = [](const std::string& message, const char* what) {
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  said(refusal(in, {some.data(), DataType::kE4M3, 2, 16, 16}), "with scales");
  said(refusal(in, {some.data(), DataType::kE4M3, 1, 16, 16, scales.data()}), "shape");
  said(refusal(in, {some.data(), type(), 2, 16, 16, scales.data()}), "E4M3");
  said(refusal({some.data(), type(), 2, 24, 32},
               {some.data(), DataType::kE4M3, 2, 24, 32, scales.data()}),
       "multiples of 16");
  said(refusal({some.data(), DataType::kFloat32, 2, 16, 16}, out), "bf16 or fp16");
}

INSTANTIATE_TEST_SUITE_P(Types, GpuQuantizeTest, kStored, TypeName);

}  // namespace
}  // namespace folio::kernels::cuda
