#include "services/model/executor/pool_fit.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace folio::model {
namespace {

absl::Status Differs(absl::string_view field, uint32_t pool, uint32_t model) {
  return absl::InvalidArgumentError(
      absl::StrCat("the pool's ", field, " is ", pool, ", the model's is ", model));
}

}  // namespace

absl::Status CheckFit(const ModelConfig& config, const kernels::PoolView& pool, int threads,
                      uint32_t max_rows) {
  const CacheGeometry& g = pool.geometry;
  if (threads < 1) return absl::InvalidArgumentError("threads must be at least 1");
  if (max_rows < 1) return absl::InvalidArgumentError("max_rows must be at least 1");
  if (g.num_layers != config.num_layers) {
    return Differs("num_layers", g.num_layers, config.num_layers);
  }
  if (g.num_kv_heads != config.kv_heads) {
    return Differs("num_kv_heads", g.num_kv_heads, config.kv_heads);
  }
  if (g.head_dim != config.head_dim) return Differs("head_dim", g.head_dim, config.head_dim);
  if (g.page_tokens < 1) return absl::InvalidArgumentError("page_tokens must be at least 1");
  if (g.windows != GeometryFor(config, g.page_tokens).windows) {
    return absl::InvalidArgumentError("the pool's windows of layers are not the model's");
  }
  return absl::OkStatus();
}

}  // namespace folio::model
