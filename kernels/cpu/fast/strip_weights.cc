#include "kernels/cpu/fast/strip_weights.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "kernels/cpu/fast/kernels.h"
#include "services/base/check.h"

namespace folio::kernels::cpu::fast {
namespace {

constexpr uint32_t kQuads = kQuantizedBlock / 4;

uint32_t RoundUp(size_t bytes) {
  return static_cast<uint32_t>((bytes + kAlign - 1) / kAlign * kAlign);
}

uint32_t PlaceOf(const QuantizedFormat& format) {
  const auto* found = std::find(std::begin(kQuantizedFormats), std::end(kQuantizedFormats), format);
  FOLIO_CHECK(found != std::end(kQuantizedFormats));
  return static_cast<uint32_t>(found - std::begin(kQuantizedFormats));
}

StripLayout LayoutOf(const QuantizedFormat& format, uint32_t lanes, uint32_t k) {
  const uint32_t groups = k / format.group * lanes;
  const uint32_t scales = RoundUp(size_t{2} * (k / format.super) * lanes);
  StripLayout at;
  at.offset_scales = scales;
  at.steps = at.offset_scales + (format.offsets ? scales : 0);
  at.offsets = at.steps + (format.steps ? RoundUp(groups) : 0);
  at.codes = at.offsets + (format.steps && format.offsets ? RoundUp(groups) : 0);
  at.high = at.codes + RoundUp(size_t{k} * lanes / (format.bits == 8 ? 1 : 2));
  const uint32_t high_bits = format.bits == 8 ? 0 : format.bits - 4;
  at.bytes = at.high + RoundUp(size_t{k} * lanes * high_bits / 8);
  return at;
}

// The part of a strip that one column has.
struct Lane {
  const QuantizedFormat& format;
  const StripLayout& at;
  uint32_t lane, lanes;

  // Words of a plane that has so many of them for each lane of a block.
  uint32_t Word(const std::byte* plane, size_t block, uint32_t word, uint32_t words) const {
    uint32_t value;
    std::memcpy(&value, plane + Place(block, word, words), sizeof(value));
    return value;
  }
  void Put(uint32_t value, std::byte* plane, size_t block, uint32_t word, uint32_t words) const {
    std::memcpy(plane + Place(block, word, words), &value, sizeof(value));
  }
  size_t Place(size_t block, uint32_t word, uint32_t words) const {
    return ((block * words + word) * lanes + lane) * sizeof(uint32_t);
  }
  // A block's words of high bits, and how many quads one of them holds.
  uint32_t high_words() const { return format.bits == 8 ? 0 : format.bits - 4u; }
  uint32_t high_quads() const { return kQuads / high_words(); }
};

constexpr uint32_t kNibbles = 0x0f0f0f0f;

void PutCodes(const std::vector<uint8_t>& codes, const Lane& l, std::byte* strip) {
  for (size_t block = 0; block < codes.size() / kQuantizedBlock; ++block) {
    uint32_t quads[kQuads];
    std::memcpy(quads, &codes[block * kQuantizedBlock], sizeof(quads));
    if (l.format.bits == 8) {
      for (uint32_t q = 0; q < kQuads; ++q) l.Put(quads[q], strip + l.at.codes, block, q, kQuads);
      continue;
    }
    for (uint32_t q = 0; q < kQuads; q += 2) {
      const uint32_t both = (quads[q] & kNibbles) | (quads[q + 1] & kNibbles) << 4;
      l.Put(both, strip + l.at.codes, block, q / 2, kQuads / 2);
    }
    for (uint32_t word = 0; word < l.high_words(); ++word) {
      uint32_t bits = 0;
      for (uint32_t q = 0; q < l.high_quads(); ++q) {
        bits |= (quads[word * l.high_quads() + q] >> 4 & kNibbles) << (q * l.high_words());
      }
      l.Put(bits, strip + l.at.high, block, word, l.high_words());
    }
  }
}

void TakeCodes(const std::byte* strip, const Lane& l, std::vector<uint8_t>& codes) {
  const uint32_t mask = l.high_words() == 2 ? 0x03030303 : 0x01010101;
  for (size_t block = 0; block < codes.size() / kQuantizedBlock; ++block) {
    uint32_t quads[kQuads];
    for (uint32_t q = 0; q < kQuads; ++q) {
      if (l.format.bits == 8) {
        quads[q] = l.Word(strip + l.at.codes, block, q, kQuads);
        continue;
      }
      quads[q] = l.Word(strip + l.at.codes, block, q / 2, kQuads / 2) >> (q % 2 * 4) & kNibbles;
      if (l.high_words() == 0) continue;
      const uint32_t bits = l.Word(strip + l.at.high, block, q / l.high_quads(), l.high_words());
      quads[q] |= (bits >> (q % l.high_quads() * l.high_words()) & mask) << 4;
    }
    std::memcpy(&codes[block * kQuantizedBlock], quads, sizeof(quads));
  }
}

// Numbers of one lane, which are `lanes` apart.
template <typename T>
void PutNumbers(const std::vector<T>& numbers, const Lane& l, std::byte* plane) {
  T* to = reinterpret_cast<T*>(plane) + l.lane;
  for (size_t i = 0; i < numbers.size(); ++i) to[i * l.lanes] = numbers[i];
}
template <typename T>
void TakeNumbers(const std::byte* plane, const Lane& l, std::vector<T>& numbers) {
  const T* from = reinterpret_cast<const T*>(plane) + l.lane;
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = from[i * l.lanes];
}

void PutRow(const QuantizedRow& row, const Lane& l, std::byte* strip) {
  PutCodes(row.codes, l, strip);
  PutNumbers(row.scales, l, strip + l.at.scales);
  PutNumbers(row.offset_scales, l, strip + l.at.offset_scales);
  PutNumbers(row.steps, l, strip + l.at.steps);
  PutNumbers(row.offsets, l, strip + l.at.offsets);
}

}  // namespace

std::unique_ptr<StripWeights> StripWeights::Pack(WeightArena& arena, uint32_t lanes,
                                                 absl::Span<const QuantizedMatrix* const> parts,
                                                 std::optional<Activation> activation) {
  const bool gated = activation.has_value();
  FOLIO_CHECK(!parts.empty());
  auto packed = std::unique_ptr<StripWeights>(new StripWeights());
  packed->lanes_ = lanes;
  packed->activation_ = activation;
  packed->k_ = parts[0]->k();
  for (const QuantizedFormat& format : kQuantizedFormats) {
    packed->layouts_.push_back(LayoutOf(format, lanes, packed->k_));
  }
  // The strips of one part, then of the next, or by turns.
  struct Of {
    const QuantizedMatrix* matrix;
    uint32_t row;
  };
  std::vector<Of> of;
  const auto add = [&](const QuantizedMatrix& matrix, uint32_t row, uint32_t first_output) {
    of.push_back({&matrix, row});
    packed->strips_.push_back({.bytes = nullptr,
                               .format = PlaceOf(matrix.format()),
                               .column = first_output + row,
                               .columns = std::min(lanes, matrix.n() - row)});
    packed->bytes_ += packed->layouts_[packed->strips_.back().format].bytes;
  };
  for (const QuantizedMatrix* part : parts) {
    FOLIO_CHECK(part->k() == packed->k_ && packed->k_ % part->format().super == 0);
    if (gated && part != parts[0]) break;
    for (uint32_t row = 0; row < part->n(); row += lanes) {
      add(*part, row, packed->n_);
      if (gated) add(*parts[1], row, packed->n_);
    }
    packed->n_ += part->n();
  }
  packed->memory_ = arena.Allocate(packed->bytes_ / sizeof(uint32_t));
  auto* to = reinterpret_cast<std::byte*>(packed->memory_.get());
  for (size_t s = 0; s < of.size(); ++s) {
    Strip& strip = packed->strips_[s];
    const QuantizedFormat& format = kQuantizedFormats[strip.format];
    const StripLayout& at = packed->layouts_[strip.format];
    std::fill_n(to, at.bytes, std::byte{0});
    QuantizedRow row(format, packed->k_);
    for (uint32_t lane = 0; lane < strip.columns; ++lane) {
      of[s].matrix->Read(of[s].row + lane, row);
      PutRow(row, {format, at, lane, lanes}, to);
    }
    strip.bytes = to;
    to += at.bytes;
  }
  return packed;
}

void StripWeights::ReadRow(uint32_t row, absl::Span<float> out) const {
  FOLIO_CHECK(!activation_.has_value() && row < n_ && out.size() == k_);
  const auto after =
      std::upper_bound(strips_.begin(), strips_.end(), row,
                       [](uint32_t column, const Strip& strip) { return column < strip.column; });
  const Strip& strip = *std::prev(after);
  const QuantizedFormat& format = kQuantizedFormats[strip.format];
  const Lane lane{format, layouts_[strip.format], row - strip.column, lanes_};
  QuantizedRow read(format, k_);
  TakeCodes(strip.bytes, lane, read.codes);
  TakeNumbers(strip.bytes + lane.at.scales, lane, read.scales);
  TakeNumbers(strip.bytes + lane.at.offset_scales, lane, read.offset_scales);
  TakeNumbers(strip.bytes + lane.at.steps, lane, read.steps);
  TakeNumbers(strip.bytes + lane.at.offsets, lane, read.offsets);
  Dequantize(format, read, out);
}

}  // namespace folio::kernels::cpu::fast
