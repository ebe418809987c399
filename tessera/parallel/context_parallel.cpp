#include "tessera/parallel/context_parallel.h"

#include "tessera/nn/attention/mla.h"
#include "tessera/parallel/context_attention.h"

namespace tessera {
namespace {

KeyExchange key_exchange(const std::string& name) {
  if (name == "ring") return KeyExchange::kRing;
  return name == "allgather" ? KeyExchange::kAllGather : KeyExchange::kAuto;
}

}  // namespace

int64_t inner_degree(const ParallelismConfig& config) {
  if (config.context_parallel_method == "ulysses") return config.context_parallel;
  if (config.context_parallel_method == "hybrid") return config.ulysses_degree_in_cp.value_or(1);
  return 1;
}

void context_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  if (mesh.size(Axis::kCp) == 1) return;
  const int64_t inner = inner_degree(config.parallelism);
  const ProcessGroup rows = mesh.neighbours(Axis::kCp, static_cast<int>(inner));
  const ProcessGroup outer = mesh.between(Axis::kCp, static_cast<int>(inner));
  for (DecoderLayer* layer : decoder.all_layers()) {
    auto* latent = dynamic_cast<LatentAttention*>(layer->attention.get());
    auto* plain = dynamic_cast<Attention*>(layer->attention.get());
    std::unique_ptr<CoreAttention>& core = latent != nullptr ? latent->core : plain->core;
    auto parallel = std::make_unique<ContextAttention>();
    parallel->scale = core->scale;
    parallel->inner = rows;
    parallel->outer = outer;
    parallel->exchange = key_exchange(config.parallelism.context_parallel_exchange);
    parallel->async = config.parallelism.context_parallel_async;
    core = std::move(parallel);
    if (plain != nullptr)
      plain->qkv_proj->in_turn = config.parallelism.context_parallel_async && inner > 1;
  }
}

}  // namespace tessera
