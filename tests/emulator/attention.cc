// Stands for the attention of kernels/cuda/attention: plain loops over the same pages. Stricter: a
// layer's tables must be those that were planned.
#include "kernels/cuda/attention/attention.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "services/base/check.h"
#include "tests/emulator/runtime.h"

namespace folio::kernels::cuda {
namespace {

// One of the lengths of runs. Where every run is one row, plans ask only for pages.
int64_t Digest(const AttentionWork& work, uint32_t page_tokens) {
  uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&](int32_t number) {
    digest = (digest ^ static_cast<uint32_t>(number)) * 0x100000001b3;
  };
  for (const int32_t start : work.row_starts) add(start);
  for (const int32_t number :
       AreSingleRows(work) ? PageStarts(work, page_tokens)
                           : std::vector<int32_t>(work.contexts.begin(), work.contexts.end())) {
    add(number);
  }
  return static_cast<int64_t>(digest);
}

float ToFloat(bf16 x) { return x.ToFloat(); }
float ToFloat(fp16 x) { return static_cast<float>(std::bit_cast<_Float16>(x.bits)); }
void Store(float x, bf16& to) { to = bf16::Round(x); }
void Store(float x, fp16& to) { to.bits = std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }

struct Layer {
  AttentionPlan plan;
  ConstTensor q;
  LayerTables tables;
  DevicePool pool;
  const int64_t* planned;  // on the device
  bool captured;
  Tensor out;

  // One row and one query head, over the first `visible` slots or the window's last of them.
  template <typename Number>
  void Attend(uint32_t row, uint32_t head, const int32_t* pages, uint32_t visible) const {
    const uint32_t first = plan.window != 0 && visible > plan.window ? visible - plan.window : 0;
    const uint32_t dim = plan.shape.head_dim;
    const uint32_t page_tokens = plan.page_tokens;
    const uint32_t kv_head = head / (plan.shape.heads / plan.shape.kv_heads);
    const auto* query = static_cast<const Number*>(q.data) + row * q.stride + size_t{head} * dim;
    const auto offset = [&](uint32_t slot) {
      return (size_t{kv_head} * page_tokens + slot % page_tokens) * dim;
    };
    std::vector<double> weights(visible);
    double most = -INFINITY;
    for (uint32_t slot = first; slot < visible; ++slot) {
      const bf16* page = pool.view.keys(pages[slot / page_tokens]);
      const auto* key = reinterpret_cast<const Number*>(page) + offset(slot);
      for (uint32_t i = 0; i < dim; ++i) weights[slot] += ToFloat(query[i]) * ToFloat(key[i]);
      weights[slot] /= std::sqrt(static_cast<double>(dim));
      most = std::max(most, weights[slot]);
    }
    double sum = 0;
    for (uint32_t slot = first; slot < visible; ++slot) {
      sum += weights[slot] = std::exp(weights[slot] - most);
    }
    std::vector<double> result(dim);
    for (uint32_t slot = first; slot < visible; ++slot) {
      const bf16* page = pool.view.values(pages[slot / page_tokens]);
      const auto* value = reinterpret_cast<const Number*>(page) + offset(slot);
      for (uint32_t i = 0; i < dim; ++i) result[i] += weights[slot] / sum * ToFloat(value[i]);
    }
    auto* to = static_cast<Number*>(out.data) + row * out.stride + size_t{head} * dim;
    for (uint32_t i = 0; i < dim; ++i) Store(static_cast<float>(result[i]), to[i]);
  }

  template <typename Number>
  void Run() const {
    std::vector<int32_t> contexts;
    for (uint32_t run = 0; run < plan.runs; ++run) {
      const int32_t pages = tables.page_starts[run + 1] - tables.page_starts[run];
      const int32_t last = tables.last_tokens[run];
      FOLIO_CHECK(pages >= 1 && last >= 1 && static_cast<uint32_t>(last) <= plan.page_tokens);
      contexts.push_back((pages - 1) * static_cast<int32_t>(plan.page_tokens) + last);
    }
    const AttentionWork work{{tables.row_starts, plan.runs + 1}, contexts};
    FOLIO_CHECK(*planned == Digest(work, plan.page_tokens));
    // The Hopper kernels find a layer's pages by the host's number and by what was planned.
    const std::vector<int32_t> page_starts = PageStarts(work, plan.page_tokens);
    for (uint32_t run = 0; run < plan.runs; ++run) {
      const auto rows = static_cast<uint32_t>(tables.row_starts[run + 1] - tables.row_starts[run]);
      const auto context = static_cast<uint32_t>(contexts[run]);
      const int32_t first =
          captured ? tables.page_starts[0] : static_cast<int32_t>(tables.first_page);
      FOLIO_CHECK(rows <= context && first + page_starts[run] == tables.page_starts[run]);
      for (uint32_t i = 0; i < rows; ++i) {
        for (uint32_t head = 0; head < plan.shape.heads; ++head) {
          Attend<Number>(tables.row_starts[run] + i, head, tables.pages + tables.page_starts[run],
                         context - rows + 1 + i);
        }
      }
    }
  }
};

}  // namespace

// As on Hopper, so that plans have contexts in tokens.
absl::StatusOr<bool> PlansReadTokens(const AttentionShape&) { return true; }

absl::StatusOr<AttentionPlan> PlanAttention(Stream stream, const AttentionWork& work,
                                            const AttentionShape& shape, uint32_t page_tokens,
                                            const AttentionOptions& options,
                                            const AttentionMemory& memory) {
  if (absl::Status status = CheckPlan(work, shape, options); !status.ok()) return status;
  emulate::BreakRecording();  // a launch would find this plan, not its own
  FOLIO_CHECK(memory.parts != nullptr && memory.plan != nullptr && memory.pinned != nullptr);
  AttentionPlan plan{.runs = static_cast<uint32_t>(work.contexts.size()),
                     .shape = shape,
                     .page_tokens = page_tokens,
                     .window = options.window};
  // As the real one, the kernel finds its plan on the device; the host knows its shape.
  *static_cast<int64_t*>(memory.pinned) = Digest(work, page_tokens);
  plan.flashinfer = {options.captured, options.captured ? options.max_rows : plan.runs};
  emulate::Enqueue(stream, [=] {
    *static_cast<int64_t*>(memory.plan) = *static_cast<const int64_t*>(memory.pinned);
  });
  return plan;
}

absl::Status RunAttention(Stream stream, const AttentionPlan& plan, ConstTensor q,
                          const LayerTables& tables, const DevicePool& pool,
                          const AttentionMemory& memory, Tensor out) {
  if (absl::Status status = CheckRun(plan, q, pool, out); !status.ok()) return status;
  const bool captured = plan.flashinfer[0] != 0;
  const Layer layer{plan, q, tables, pool, static_cast<const int64_t*>(memory.plan), captured, out};
  emulate::Enqueue(stream,
                   [=] { pool.type == DataType::kFp16 ? layer.Run<fp16>() : layer.Run<bf16>(); });
  return absl::OkStatus();
}

}  // namespace folio::kernels::cuda
