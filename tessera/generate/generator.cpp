#include "tessera/generate/generator.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/regions.h"
#include "tessera/nn/attention/mla.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/rules/derive.h"
#include "tessera/train/load_weights.h"

namespace tessera {
namespace {

// Nothing is dropped, and nothing runs twice.
Config without_training(Config config) {
  config.model.hidden_dropout = 0;
  config.model.attention_dropout = 0;
  config.recompute = {};
  config.parallelism.enable_mc2 = false;
  return config;
}

at::Tensor int64_tensor(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

}  // namespace

Generator::Generator(Config config, const ProcessGroup& world)
    : config_(without_training(std::move(config))),
      mesh_(derive_dims(config_, world.size()), world),
      model_(parallelize(config_, mesh_)) {
  load_weights(*model_, config_, mesh_);
  for (const auto& unit : model_->units) unit->unshard();
  keep_keys();
}

void Generator::keep_keys() {
  for (const auto& decoder : model_->decoders) {
    for (const auto& layer : decoder->layers) {
      AttentionBlock* block = layer->attention.get();
      auto* latent = dynamic_cast<LatentAttention*>(block);
      auto& core = latent != nullptr ? latent->core : dynamic_cast<Attention&>(*block).core;
      auto cached = std::make_unique<CachedAttention>(std::move(core), spans_);
      caches_.push_back(cached.get());
      core = std::move(cached);
    }
  }
}

bool Generator::on_last_stage() const {
  return mesh_.coordinate(Axis::kPp) + 1 == mesh_.size(Axis::kPp);
}

int64_t Generator::cache_bytes() const {
  int64_t bytes = 0;
  for (const CachedAttention* cache : caches_) bytes += cache->bytes();
  return bytes;
}

void Generator::forget(int64_t row) {
  for (CachedAttention* cache : caches_) cache->forget(row);
  lengths_[static_cast<size_t>(row)] = 0;
}

// Flat tokens of all rows, then padding up to a multiple of the tensor-parallel ranks, which slice
// the residual stream; a rank without rows has padding alone.
LayerContext Generator::context_of(const std::vector<RowTokens>& rows) {
  std::vector<int64_t> ids, positions;
  spans_.clear();
  last_tokens_.clear();
  for (const RowTokens& row : rows) {
    if (row.row >= static_cast<int64_t>(lengths_.size())) {
      lengths_.resize(static_cast<size_t>(row.row) + 1, 0);
    }
    int64_t& length = lengths_[static_cast<size_t>(row.row)];
    const auto count = static_cast<int64_t>(row.ids.size());
    spans_.push_back({row.row, static_cast<int64_t>(ids.size()), count, length});
    for (const int32_t id : row.ids) {
      ids.push_back(id);
      positions.push_back(length++);
    }
    last_tokens_.push_back(static_cast<int64_t>(ids.size()) - 1);
  }
  const int tp = mesh_.size(Axis::kTp);
  while (ids.empty() || ids.size() % static_cast<size_t>(tp) != 0) {
    ids.push_back(0);
    positions.push_back(0);
  }
  const auto tokens = static_cast<int64_t>(ids.size());
  const Range own = part_of(tokens, tp, mesh_.coordinate(Axis::kTp));
  LayerContext context;
  context.rows = 1;
  context.seq_length = tokens;
  context.residual_tokens = {own.begin, own.end};
  context.token_ids = int64_tensor(ids);
  context.positions = int64_tensor(positions);
  context.in_sample = context.positions;
  context.sample_ids = at::zeros({tokens}, at::kLong);
  return context;
}

at::Tensor Generator::run_stages(const LayerContext& context) {
  const ProcessGroup& stages = mesh_[Axis::kPp];
  const int stage = stages.rank(), last = stages.size() - 1;
  const int64_t tokens = context.residual_tokens.second - context.residual_tokens.first;
  at::Tensor x;
  for (size_t chunk = 0; chunk < model_->decoders.size(); ++chunk) {
    Decoder& decoder = *model_->decoders[chunk];
    LayerContext own = context;
    decoder.prepare(own);
    if (decoder.embedding && stage == 0 && chunk == 0) {
      x = decoder.run_embedding(own);
    } else if (last > 0) {
      x = at::empty({tokens, config_.model.hidden_size},
                    at::TensorOptions().dtype(scalar_type(config_.model.compute_dtype)));
      stages.recv(x, stage == 0 ? last : stage - 1, static_cast<int64_t>(chunk)).wait();
    }
    for (const auto& layer : decoder.layers) x = layer->run(x, own)[0];
    const bool ends = stage == last && chunk + 1 == model_->decoders.size();
    if (last > 0 && !ends) {
      const auto next = static_cast<int64_t>(stage == last ? chunk + 1 : chunk);
      stages.send(x.contiguous(), stage == last ? 0 : stage + 1, next).wait();
    }
  }
  return x;
}

at::Tensor Generator::logits_of(const at::Tensor& x_TH, const LayerContext& context) {
  Decoder& decoder = *model_->decoders.back();
  const ProcessGroup& tp = mesh_[Axis::kTp];
  const at::Tensor all_TH = gather_from_sp(x_TH, context.seq_length, tp);
  // As the residual stream is sliced, so are the rows of the head.
  std::vector<int64_t> picked = last_tokens_;
  while (picked.empty() || picked.size() % static_cast<size_t>(tp.size()) != 0) picked.push_back(0);
  const auto count = static_cast<int64_t>(picked.size());
  const Range own = part_of(count, tp.size(), tp.rank());
  const at::Tensor rows_RH =
      all_TH.index_select(0, int64_tensor(picked)).narrow(0, own.begin, own.size());
  return decoder.head->logits(decoder.norm->forward(rows_RH))
      .narrow(0, 0, static_cast<int64_t>(last_tokens_.size()));
}

at::Tensor Generator::next_logits(const std::vector<RowTokens>& rows) {
  const at::NoGradGuard no_grad;
  const LayerContext context = context_of(rows);
  const at::Tensor x_TH = run_stages(context);
  return on_last_stage() ? logits_of(x_TH, context) : at::Tensor();
}

}  // namespace tessera
