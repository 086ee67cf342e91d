#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "services/gateway/http/request_reader.h"

// The first byte says how many bytes come at once, as a connection gives them.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t step = size_t{data[0]} + 1;
  const absl::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  folio::gateway::RequestReader reader({.head_bytes = 1024, .body_bytes = 1024});
  size_t begin = 0;
  size_t end = 0;
  while (end < input.size() && !reader.done() && !reader.refusal().has_value()) {
    end = std::min(input.size(), end + step);
    const size_t taken = reader.Feed(input.substr(begin, end - begin));
    if (taken > end - begin) std::abort();
    begin += taken;
  }
  if (reader.done() && !reader.refusal().has_value()) (void)reader.Take();
  return 0;
}
