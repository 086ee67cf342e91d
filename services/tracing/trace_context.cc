#include "services/tracing/trace_context.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace folio::tracing {
namespace {

// "00-", 32 digits of the trace, "-", 16 of the span, "-", and 2 of the flags.
constexpr size_t kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53, kEnd = 55;
constexpr uint8_t kSampledFlag = 1;

// -1 for anything but a lower-case digit, because the specification forbids capitals.
int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ReadBytes(absl::string_view digits, uint8_t* bytes) {
  for (size_t i = 0; i < digits.size(); i += 2) {
    const int high = Digit(digits[i]), low = Digit(digits[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i / 2] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

template <size_t kBytes>
bool IsZero(const std::array<uint8_t, kBytes>& id) {
  return std::all_of(id.begin(), id.end(), [](uint8_t byte) { return byte == 0; });
}

template <size_t kBytes>
std::string Hex(const std::array<uint8_t, kBytes>& bytes) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes.data()), kBytes));
}

// gRPC ends the program over metadata that is not printable.
bool IsState(absl::string_view state) {
  return state.size() <= kMostTraceState &&
         std::all_of(state.begin(), state.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::mt19937_64 SeededGenerator() {
  std::random_device device;
  std::seed_seq seed = {device(), device(), device(), device()};
  return std::mt19937_64(seed);
}

template <typename Id>
Id NewId() {
  thread_local std::mt19937_64 generator = SeededGenerator();
  Id id = {};
  while (IsZero(id)) {
    for (size_t i = 0; i < id.size(); i += sizeof(uint64_t)) {
      const uint64_t part = generator();
      std::memcpy(&id[i], &part, sizeof(part));
    }
  }
  return id;
}

}  // namespace

std::optional<TraceContext> ParseTraceContext(absl::string_view parent, absl::string_view state) {
  if (parent.size() < kEnd) return std::nullopt;
  for (const size_t dash : {kTraceAt - 1, kSpanAt - 1, kFlagsAt - 1}) {
    if (parent[dash] != '-') return std::nullopt;
  }
  TraceContext context;
  uint8_t version = 0, flags = 0;
  if (!ReadBytes(parent.substr(0, 2), &version) ||
      !ReadBytes(parent.substr(kTraceAt, 32), context.trace_id.data()) ||
      !ReadBytes(parent.substr(kSpanAt, 16), context.span_id.data()) ||
      !ReadBytes(parent.substr(kFlagsAt, 2), &flags)) {
    return std::nullopt;
  }
  if (version == 0xff || IsZero(context.trace_id) || IsZero(context.span_id)) return std::nullopt;
  // Only a later version may have more to say.
  if (parent.size() > kEnd && (version == 0 || parent[kEnd] != '-')) return std::nullopt;
  context.sampled = (flags & kSampledFlag) != 0;
  if (IsState(state)) context.state = std::string(state);
  return context;
}

std::string FormatTraceParent(const TraceContext& context) {
  return absl::StrCat("00-", Hex(context.trace_id), "-", Hex(context.span_id),
                      context.sampled ? "-01" : "-00");
}

std::string HexOf(const TraceId& id) { return Hex(id); }

TraceId NewTraceId() { return NewId<TraceId>(); }
SpanId NewSpanId() { return NewId<SpanId>(); }

}  // namespace folio::tracing
