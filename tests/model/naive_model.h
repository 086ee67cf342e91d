// NaiveModel is the forward pass of any family once more, in double precision and without pages,
// batches or kernels. Executors are compared with it.
#ifndef FOLIO_TESTS_MODEL_NAIVE_MODEL_H_
#define FOLIO_TESTS_MODEL_NAIVE_MODEL_H_

#include <cstdint>
#include <vector>

#include "services/model/family/model_config.h"
#include "services/model/source/model_source.h"

namespace folio::model::testing {

using Numbers = std::vector<double>;

// One sequence. K and V are rounded to bf16 as in the cache, nothing else is.
class NaiveModel {
 public:
  explicit NaiveModel(const ModelSource& source);

  // Runs one token at the next position over what each layer still holds; returns the logits.
  Numbers Feed(uint32_t token);
  // Forgets all but these entries (indices into what the layer holds), ascending.
  void Keep(uint32_t layer, const std::vector<uint32_t>& entries);
  // The attention of the last `rows` tokens by slot, which is the mean share of the KV head's
  // queries, then the largest among 7 neighbours.
  Numbers WindowMass(uint32_t layer, uint32_t kv_head, uint32_t rows) const;

 private:
  struct Entry {
    Numbers key, value;  // [kv_heads * head_dim]
    Numbers query;       // [heads * head_dim]
    uint32_t position;
  };
  struct Layer {
    Numbers attention_norm, ffn_norm, q, k, v, out, gate, up, down;
    Numbers q_bias, k_bias, v_bias;              // empty without biases
    Numbers q_norm, k_norm;                      // [head_dim], empty without norms of heads
    Numbers post_attention_norm, post_ffn_norm;  // empty without norms behind
    bool other = false;
    std::vector<Entry> cache;
  };

  // The shares of one query head among the first `seen` entries, of which the last is the query's
  // own. Those behind a window have none.
  Numbers Shares(const Layer& layer, const Numbers& q, size_t head, size_t seen) const;
  Numbers Attend(const Layer& layer, const Numbers& q) const;
  void NormHeads(const Numbers& weight, Numbers& heads) const;
  void Rotate(const Layer& layer, Numbers& heads) const;
  // Adds it to the state, behind a norm if there is one.
  void AddTo(Numbers& state, const Numbers& added, const Numbers& norm) const;

  ModelConfig config_;
  Numbers embedding_, output_, final_norm_;
  std::vector<Layer> layers_;
  uint32_t position_ = 0;
};

}  // namespace folio::model::testing

#endif  // FOLIO_TESTS_MODEL_NAIVE_MODEL_H_
