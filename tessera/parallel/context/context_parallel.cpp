#include "tessera/parallel/context/context_parallel.h"

#include "tessera/layout/context_grid.h"
#include "tessera/nn/attention/mla.h"
#include "tessera/parallel/context/context_attention.h"

namespace tessera {
void context_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  if (mesh.size(Axis::kCp) == 1) return;
  const int64_t inner = context_grid(config.parallelism).inner;
  const ProcessGroup neighbours = mesh.neighbours(Axis::kCp, static_cast<int>(inner));
  const ProcessGroup outer = mesh.between(Axis::kCp, static_cast<int>(inner));
  for (DecoderLayer* layer : decoder.all_layers()) {
    auto* latent = dynamic_cast<LatentAttention*>(layer->attention.get());
    auto* plain = dynamic_cast<Attention*>(layer->attention.get());
    std::unique_ptr<CoreAttention>& core = latent != nullptr ? latent->core : plain->core;
    auto parallel = std::make_unique<ContextAttention>();
    static_cast<CoreAttention&>(*parallel) = std::move(*core);
    parallel->inner = neighbours;
    parallel->outer = outer;
    parallel->exchange = key_exchange(config.parallelism);
    parallel->async = config.parallelism.context_parallel_async;
    core = std::move(parallel);
    if (plain != nullptr) plain->qkv_proj->in_turn = trades_in_turn(config.parallelism);
  }
}

}  // namespace tessera
