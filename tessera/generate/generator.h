#pragma once

// A model that writes: this rank's part of it, with its weights, and what earlier tokens left in
// its attention. No gradients, no optimizer.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/generate/cached_attention.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// New tokens of one row: those of the prompt at first, then one at a time.
struct RowTokens {
  int64_t row = 0;  // of this rank
  std::span<const int32_t> ids;
};

class Generator {
 public:
  /// Collective. The weights are those at config.checkpoint.load_path; every rank keeps its part of
  /// each layer whole, so dp_shard copies. Context parallelism is refused before. Throws
  /// ConfigError, CheckpointError.
  Generator(Config config, const ProcessGroup& world);

  /// The logits of the last token of each row, [rows, vocabulary], on the ranks of the last stage;
  /// undefined on the others. Collective: ranks of one batch coordinate pass the same rows, others
  /// pass theirs, or none.
  at::Tensor next_logits(const std::vector<RowTokens>& rows);

  /// The row ends; its number may be given to another.
  void forget(int64_t row);

  const DeviceMesh& mesh() const { return mesh_; }
  bool on_last_stage() const;
  /// Keys and values that this rank keeps, in bytes.
  int64_t cache_bytes() const;

 private:
  void keep_keys();
  LayerContext context_of(const std::vector<RowTokens>& rows);
  at::Tensor run_stages(const LayerContext& context);
  at::Tensor logits_of(const at::Tensor& x_TH, const LayerContext& context);

  Config config_;
  DeviceMesh mesh_;
  std::unique_ptr<ParallelModel> model_;
  RowSpans spans_;                        // of the call at hand
  std::vector<CachedAttention*> caches_;  // of all layers here
  std::vector<int64_t> lengths_;          // [row] tokens that the caches hold
  std::vector<int64_t> last_tokens_;      // of the call at hand: the place of each row's last one
};

}  // namespace tessera
