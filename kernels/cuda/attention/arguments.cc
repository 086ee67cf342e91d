#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/attention/attention.h"

namespace folio::kernels::cuda {
namespace {

absl::Status Unserved(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("CUDA attention: ", what));
}

absl::string_view NameOf(DataType type) {
  switch (type) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kBf16:
      return "bf16";
    case DataType::kFp16:
      return "fp16";
    case DataType::kE4M3:
      return "E4M3";
  }
  return "of no known type";
}

}  // namespace

absl::Status CheckShape(const AttentionShape& shape) {
  if (!ServesHeads(shape.head_dim)) {
    return Unserved(absl::StrCat("head_dim must be 64, 128 or 256, not ", shape.head_dim));
  }
  if (shape.kv_heads == 0 || shape.heads % shape.kv_heads != 0) {
    return Unserved("query heads must be a multiple of KV heads");
  }
  return absl::OkStatus();
}

// FlashInfer splits contexts into at most two blocks of a KV head on each multiprocessor, and in a
// graph has a block for each tile of the batch if that is more. A block's part is float32.
size_t AttentionPartsBytes(const AttentionShape& shape, uint32_t processors) {
  constexpr uint32_t kLargestTile = 128;
  constexpr size_t kAligning = 64;
  const uint32_t group = shape.heads / shape.kv_heads;
  const uint32_t tile = group > 64 ? kLargestTile : group > 16 ? 64 : 16;  // of rows that decode
  const size_t rows = std::max(kLargestTile, group + 2 * tile);
  return size_t{2} * processors * group * rows * (shape.head_dim + 1) * sizeof(float) + kAligning;
}

std::vector<int32_t> PageStarts(const AttentionWork& work, uint32_t page_tokens) {
  std::vector<int32_t> starts{0};
  const auto tokens = static_cast<int32_t>(page_tokens);
  for (const int32_t context : work.contexts) {
    starts.push_back(starts.back() + (context + tokens - 1) / tokens);
  }
  return starts;
}

bool AreSingleRows(const AttentionWork& work) {
  return static_cast<size_t>(work.row_starts.back()) == work.contexts.size();
}

absl::Status CheckPlan(const AttentionWork& work, const AttentionShape& shape,
                       const AttentionOptions& options) {
  if (absl::Status status = CheckShape(shape); !status.ok()) return status;
  if (work.contexts.empty() || work.row_starts.size() != work.contexts.size() + 1) {
    return Unserved("a plan is of at least one run, with the starts of its rows and its context");
  }
  for (size_t i = 0; i < work.contexts.size(); ++i) {
    const int32_t rows = work.row_starts[i + 1] - work.row_starts[i];
    if (rows < 1 || work.contexts[i] < rows) {
      return Unserved(absl::StrCat("run ", i, " has no rows or more rows than tokens"));
    }
  }
  if (options.kernels == AttentionKernels::kHopper &&
      (options.captured || options.split_pages > 0 || options.window > 0)) {
    return Unserved("the Hopper kernels are not for captured batches, fixed splits or windows");
  }
  if (options.captured && options.max_rows < static_cast<uint32_t>(work.row_starts.back())) {
    return Unserved("a captured batch has more rows than its largest");
  }
  return absl::OkStatus();
}

absl::Status CheckRun(const AttentionPlan& plan, ConstTensor q, const DevicePool& pool,
                      const Tensor& out) {
  const AttentionShape& shape = plan.shape;
  const CacheGeometry& geometry = pool.view.geometry;
  if (pool.type != DataType::kBf16 && pool.type != DataType::kFp16) {
    return Unserved(absl::StrCat("pages must be bf16 or fp16, not ", NameOf(pool.type)));
  }
  for (const auto& [what, type] : {std::pair("queries", q.type), {"results", out.type}}) {
    if (type != pool.type) {
      return Unserved(absl::StrCat(what, " are ", NameOf(type), ", pages ", NameOf(pool.type)));
    }
  }
  if (geometry.head_dim != shape.head_dim || geometry.num_kv_heads != shape.kv_heads ||
      geometry.page_tokens != plan.page_tokens || q.cols != shape.heads * shape.head_dim ||
      out.cols != q.cols || out.stride != out.cols) {
    return Unserved("queries, pages or results have another shape than was planned");
  }
  if (!RowsAreAligned(q) || !RowsAreAligned(out)) {
    return Unserved("rows of queries and results begin at multiples of 16 bytes");
  }
  return absl::OkStatus();
}

}  // namespace folio::kernels::cuda
