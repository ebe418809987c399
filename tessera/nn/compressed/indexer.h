#pragma once

// Which compressed entries a query attends over (the lightning indexer of DeepSeek-V3.2 and V4, as
// transformers has it). T = rows x s tokens, h heads of d numbers, E entries of a sample, K chosen.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/nn/compressed/key_compressor.h"
#include "tessera/nn/seams.h"

namespace tessera {

/// The score of entry e for query t: sum over heads of weight_th relu(q_th k_e).
struct IndexScores {
  at::Tensor q_Thd;
  at::Tensor weight_Th;  // scaled by (h d)^-1/2
  at::Tensor keys_BEd;
};

struct Indexer {
  int64_t top_k = 1;
  std::unique_ptr<Linear> query_up;      // [h d, latent]
  std::unique_ptr<Linear> head_weights;  // [h, H]
  std::unique_ptr<KeyCompressor> keys;   // of size d

  /// Differentiable in the indexer's weights alone: x [T, H] and the latent query [T, L] get no
  /// gradient.
  IndexScores scores(const at::Tensor& x_TH, const at::Tensor& latent_TL,
                     const LayerContext& context) const;
  std::vector<Weight*> weights();
};

/// The min(top_k, E) entries of the highest scores among those that a query can see, [T, that many]
/// int32; -1 where there are fewer. No gradient. Scores exist for a block of queries at a time.
/// document_begins: see nn/attention/document_begins.h.
at::Tensor choose_entries(const IndexScores& scores, int64_t top_k, int64_t ratio,
                          const at::Tensor& document_begins);

}  // namespace tessera
