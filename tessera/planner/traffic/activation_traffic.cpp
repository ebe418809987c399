#include "tessera/planner/traffic/activation_traffic.h"

#include <algorithm>
#include <set>

#include "tessera/base/box.h"
#include "tessera/layout/dtypes.h"
#include "tessera/layout/size_choices.h"
#include "tessera/planner/tapes/call_tapes.h"

namespace tessera {
namespace {

// The messages of one micro-batch over tp.
class TensorTraffic {
 public:
  TensorTraffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                const RecomputePlan& recompute, int64_t rank)
      : config_(config),
        dims_(dims),
        recompute_(recompute),
        rank_(rank),
        rows_(batch.local_batch),
        tokens_(batch.local_batch * config.model.seq_length / dims.cp),
        micro_batches_(batch.micro_batches) {}

  void add_to(const StageUnits& stage, TrafficPlan& plan) {
    for (const ModelUnit& unit : stage.units) {
      if (unit.kind == ModelUnit::Kind::kHead) {
        head_is_adapted_ = unit.adapted.contains(ParamRole::kHead);
      }
    }
    for (const ModelUnit& unit : stage.units) {
      switch (unit.kind) {
        case ModelUnit::Kind::kEmbedding:
          if (!unit.is_copy) look_up(1);
          break;
        case ModelUnit::Kind::kLayer: layer(unit); break;
        case ModelUnit::Kind::kHead: head(1, unit.adapted.contains(ParamRole::kHead)); break;
      }
    }
    counter_.add_to(plan, micro_batches_);
  }

 private:
  // Gathers and scatters of [tokens, columns] along the sequence.
  void rows(int64_t gathers, int64_t scatters, int64_t columns) {
    const int64_t bytes =
        tokens_ / dims_.tp * (dims_.tp - 1) * columns * size_of(config_.model.compute_dtype);
    counter_.add("all_gather", gathers, bytes);
    counter_.add("reduce_scatter", scatters, bytes);
  }

  // How gradients come to the products of a layer: to one with an adapter, and to all after it.
  struct Flow {
    bool trains = true;  // gradients arrive here
    bool is_frozen = false;
    const std::set<ParamRole>* adapted = nullptr;

    int64_t adapters(std::initializer_list<ParamRole> roles) const {
      return std::ranges::count_if(roles, [&](ParamRole role) { return adapted->contains(role); });
    }
  };

  void look_up(int64_t times) {
    rows(config_.model.lora.is_given() ? 0 : 1, times, config_.model.hidden_size);
  }

  void head(int64_t times, bool adapted) {
    rows(times, 1, config_.model.hidden_size);
    if (adapted) rows(times, 1, config_.model.lora.lora_rank);
    for (int64_t i = 0; i < times; ++i) loss();
  }

  // A column product gathers its input, in the backward once more for the gradient of its weights,
  // and scatters the gradient; a row product scatters its output and gathers the gradient. Of
  // adapters what is between A and B travels.
  void column(int64_t times, std::initializer_list<ParamRole> roles, Flow& flow) {
    const int64_t adapters = flow.adapters(roles);
    rows(times + (flow.is_frozen ? 0 : 1), flow.trains ? 1 : 0, config_.model.hidden_size);
    if (adapters > 0) rows(times, 1, adapters * config_.model.lora.lora_rank);
    flow.trains = flow.trains || adapters > 0;
  }
  void row(int64_t times, ParamRole role, Flow& flow) {
    const int64_t adapters = flow.adapters({role});
    rows(flow.trains ? 1 : 0, times, config_.model.hidden_size);
    if (adapters > 0) rows(1, times, adapters * config_.model.lora.lora_rank);
    flow.trains = flow.trains || adapters > 0;
  }

  void layer(const ModelUnit& unit) {
    const ModelConfig& m = config_.model;
    const int64_t index = unit.layer;
    using enum LayerModule;
    const auto times = [&](std::initializer_list<LayerModule> modules) {
      return unit.trains ? forwards(recompute_, index, modules) : 1;
    };
    Flow flow{unit.trains_before, m.lora.is_given(), &unit.adapted};
    if (index >= m.num_hidden_layers) {  // multi-token prediction: its embedding, its loss
      const int64_t again = recompute_.whole(index) ? 2 : 1;
      look_up(again);
      head(again, head_is_adapted_);
    }
    if (m.has_latent_attention()) {  // latent vectors are gathered and kept
      const int64_t columns =
          m.q_lora_rank.value_or(m.hidden_size) + m.kv_lora_rank + m.qk_rope_head_dim;
      flow.trains = flow.trains || flow.adapters({ParamRole::kMlaQA, ParamRole::kMlaKvA}) > 0;
      rows(times({kAttention}), flow.trains ? 1 : 0, columns);
      flow.trains = flow.trains || flow.adapters({ParamRole::kMlaQB, ParamRole::kMlaKvB}) > 0;
    } else {
      column(times({kAttention, kQkv}), {ParamRole::kAttnQ, ParamRole::kAttnK, ParamRole::kAttnV},
             flow);
      for (const LayerModule norm : {kQueryNorm, kKeyNorm}) {
        if (m.design().qk_norm_span == QkNormSpan::kAllHeads) {
          sums_of_heads(times({kAttention, norm}) + (flow.trains ? 1 : 0));
        }
      }
    }
    row(times({kAttention, kOutput}), ParamRole::kAttnO, flow);
    if (!m.is_moe_layer(index)) {
      column(times({kMlp, kGateUp}), {ParamRole::kMlpGate, ParamRole::kMlpUp}, flow);
      row(times({kMlp, kDown}), ParamRole::kMlpDown, flow);
    } else if (m.moe_aux_loss_coeff > 0) {
      counts(times({kMlp, kRouter}));
    }
  }

  // The square sums of a norm over all heads, of which each rank has some; their gradient.
  void sums_of_heads(int64_t times) {
    const int64_t bytes = tokens_ * size_of(master_dtype(config_.model));
    counter_.add("all_reduce", times, 2 * (dims_.tp - 1) * bytes / dims_.tp);
  }

  // Tokens of each expert, over which balance is judged.
  void counts(int64_t times) {
    const bool by_sequence = config_.model.moe_router_load_balancing_type.starts_with("seq") ||
                             config_.model.moe_router_load_balancing_type.starts_with("sub_seq");
    const int64_t bytes = (by_sequence ? rows_ : 1) * config_.model.n_routed_experts * 8;
    counter_.add("all_reduce", times, 2 * (dims_.tp - 1) * bytes / dims_.tp);
  }

  void loss() {
    const bool cut = config_.parallelism.enable_loss_parallel;
    const int64_t vocabulary = config_.model.vocab_size;
    const int64_t own = part_of(vocabulary, dims_.tp, dims_.index_on(Axis::kTp, rank_)).size();
    const int64_t step = loss_chunk_tokens(tokens_, cut ? own : vocabulary,
                                           config_.model.chunk_loss_num, /*cut=*/true);
    for (int64_t begin = 0; begin < tokens_; begin += step) {
      const int64_t count = std::min(step, tokens_ - begin);
      if (cut) {  // the highest logit; then the sum of exponentials with the target's logit
        for (const int64_t values : {count, 2 * count}) {
          const int64_t bytes = values * size_of(master_dtype(config_.model));
          counter_.add("all_reduce", 1, 2 * (dims_.tp - 1) * bytes / dims_.tp);
        }
      } else {  // the logits
        counter_.add("all_gather", 1,
                     (dims_.tp - 1) * own * count * size_of(config_.model.compute_dtype));
      }
    }
  }

  const Config& config_;
  const ParallelDims& dims_;
  const RecomputePlan& recompute_;
  bool head_is_adapted_ = false;
  int64_t rank_;
  int64_t rows_;    // samples of a micro-batch
  int64_t tokens_;  // of a micro-batch on a tp group
  int64_t micro_batches_;
  TrafficCounter counter_;
};

// Rows there and back, in the forward and in the backward; how many go where travels first.
void add_expert_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                        const RecomputePlan& recompute, const StageUnits& stage,
                        std::map<Axis, TrafficPlan>& traffic) {
  const ModelConfig& m = config.model;
  TrafficCounter counter;
  const int64_t rows =
      batch.local_batch * m.seq_length / (dims.cp * dims.tp) * m.num_experts_per_tok;
  const int64_t bytes = rows * (dims.ep - 1) / dims.ep * m.hidden_size * size_of(m.compute_dtype);
  for (const ModelUnit& unit : stage.units) {
    if (unit.kind != ModelUnit::Kind::kLayer || !m.is_moe_layer(unit.layer)) continue;
    const int64_t times = forwards(recompute, unit.layer, {LayerModule::kMlp});
    counter.add("all_to_all", times, m.n_routed_experts / dims.ep * (dims.ep - 1) * 8);
    counter.add("all_to_all", 2 * times + 2, bytes);
  }
  counter.add_to(traffic[Axis::kEp], batch.micro_batches);
}

}  // namespace

int64_t forwards(const RecomputePlan& plan, int64_t layer,
                 std::initializer_list<LayerModule> modules) {
  const auto kept = [&](LayerModule module) { return plan.keeps(layer, module); };
  if (std::ranges::any_of(modules, kept)) return 1;
  const bool again = plan.whole(layer) || std::ranges::any_of(modules, [&](LayerModule module) {
                       return plan.selects(layer, module);
                     });
  return again ? 2 : 1;
}

void add_activation_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                            const StagePlan& chunks, const StageUnits& stage, int64_t rank,
                            std::map<Axis, TrafficPlan>& traffic) {
  const RecomputePlan recompute(config);
  if (dims.tp > 1) {
    TensorTraffic(config, dims, batch, recompute, rank).add_to(stage, traffic[Axis::kTp]);
  }
  if (dims.cp > 1) {
    TrafficCounter counter;
    for (const ModelUnit& unit : stage.units) {
      if (unit.kind != ModelUnit::Kind::kLayer) continue;
      add_context_traffic(config, dims, batch, recompute, unit.layer, rank, counter);
    }
    counter.add_to(traffic[Axis::kCp], batch.micro_batches);
  }
  if (dims.ep > 1 && config.parallelism.moe_token_dispatcher_type == "alltoall") {
    add_expert_traffic(config, dims, batch, recompute, stage, traffic);
  }
  if (dims.pp == 1) return;
  const int64_t last = dims.pp * static_cast<int64_t>(chunks.chunks.size()) - 1;
  const int64_t bytes = batch.local_batch * config.model.seq_length / dims.cp / dims.tp *
                        config.model.hidden_size * size_of(config.model.compute_dtype);
  TrafficPlan::Count sends;
  for (const ChunkPlan& chunk : chunks.chunks) {
    // Its output, and the gradient of its input.
    const int64_t messages =
        (chunk.virtual_stage < last ? 1 : 0) + (chunk.virtual_stage > 0 ? 1 : 0);
    sends.calls += batch.micro_batches * messages;
    sends.bytes += batch.micro_batches * messages * bytes;
  }
  traffic[Axis::kPp].operations["send"] = sends;
}

}  // namespace tessera
