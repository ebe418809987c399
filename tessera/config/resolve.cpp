#include "tessera/config/resolve.h"
#include "tessera/config/optimizer_kind.h"

#include <algorithm>

#include "tessera/config/yaml/value.h"

namespace tessera {
namespace {

// Defaults of MindFormers' yarn keys.
constexpr double kRotaryScalingFactor = 40.0;

void resolve_rope(ModelConfig& model, const IsGiven& given) {
  RopeScaling& rope = model.rope_scaling;
  const bool dict_given = given("model.rope_scaling.rope_type");
  if (!dict_given && model.position_embedding_type == "yarn") {
    rope.rope_type = "yarn";
    if (!given("model.rope_scaling.factor")) {
      rope.factor = model.rotary_scaling_factor.value_or(kRotaryScalingFactor);
    }
    if (!rope.mscale) rope.mscale = model.mscale.value_or(kDefaultMscale);
    if (!rope.mscale_all_dim) rope.mscale_all_dim = model.mscale_all_dim.value_or(kDefaultMscale);
    if (!given("model.rope_scaling.beta_fast")) rope.beta_fast = model.beta_fast.value_or(32.0);
    if (!given("model.rope_scaling.beta_slow")) rope.beta_slow = model.beta_slow.value_or(1.0);
  }
  if (model.position_embedding_type == "rope" || model.position_embedding_type == "yarn") {
    model.position_embedding_type = rope.rope_type == "yarn" ? "yarn" : "rope";
  }
  if (rope.rope_type == "yarn" && !rope.original_max_position_embeddings) {
    rope.original_max_position_embeddings = model.max_position_embeddings;
  }
}

// Which layers have a window: said by layer_types, else by the family.
void resolve_windows(ModelConfig& model, const IsGiven& given) {
  const LayerDesign& design = model.design();
  if (design.asks_for_window && !model.use_sliding_window) model.sliding_window.reset();
  if (given("model.layer_types")) return;
  model.layer_types.clear();
  if (!model.sliding_window) return;
  const int64_t first = design.asks_for_window ? model.max_window_layers.value_or(0) : 0;
  for (int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const bool is_full = layer < first || (design.full_attention_every > 0 &&
                                           (layer + 1) % design.full_attention_every == 0);
    model.layer_types.push_back(is_full ? kFullLayer : kWindowedLayer);
  }
}

// 0 groups are none; a family's default of one of the two keys is meant with the other's.
void resolve_groups(ModelConfig& model, const IsGiven& given) {
  const bool none = model.n_group == 0 || model.topk_group == 0;
  if (!none) return;
  if (model.n_group == 0 || !given("model.n_group")) model.n_group.reset();
  if (model.topk_group == 0 || !given("model.topk_group")) model.topk_group.reset();
}

// Rows of an HFDataLoader are token files of its own, read by the keys of those.
void resolve_rows(Config& config) {
  DataloaderConfig& loader = config.train_dataset.dataloader;
  if (loader.type != "HFDataLoader") return;
  for (const DataHandler& handler : loader.handler) {
    const auto argument = [&](const char* name) -> std::string {
      const auto found = handler.args.find(name);
      return found == handler.args.end() || found->second.empty() ? "" : found->second[0];
    };
    if (handler.type == "PackingHandler") {
      const std::string strategy = argument("pack_strategy");
      if (!strategy.empty()) loader.packing = strategy;
      if (loader.packing.empty()) loader.packing = "pack";
    }
    if (loader.seq_length == 0) loader.seq_length = parse_int(argument("seq_length")).value_or(0);
  }
  if (loader.seq_length == 0) {
    loader.seq_length =
        loader.config.seq_length > 0 ? loader.config.seq_length : config.model.seq_length;
  }
  loader.config.seq_length = loader.seq_length;
  loader.datasets_type = "SFTDataset";
  if (!loader.packing.empty()) {
    loader.config.create_compressed_eod_mask = true;
    loader.config.create_attention_mask = false;  // none is ever made of rows
  }
}

void resolve_model(Config& config, const IsGiven& given) {
  ModelConfig& model = config.model;
  if (!given("model.num_key_value_heads")) model.num_key_value_heads = model.num_attention_heads;
  if (model.head_dim == 0 && !given("model.head_dim") && model.num_attention_heads > 0) {
    model.head_dim = model.hidden_size / model.num_attention_heads;
  }
  if (model.is_moe() && model.moe_intermediate_size == 0 && !given("model.moe_intermediate_size")) {
    model.moe_intermediate_size = model.intermediate_size;
  }
  if (!given("model.moe_shared_expert_intermediate_size")) {
    model.moe_shared_expert_intermediate_size =
        model.moe_intermediate_size * model.n_shared_experts;
  }
  resolve_groups(model, given);
  // Without a coefficient the scope of the auxiliary loss means nothing.
  if (model.moe_aux_loss_coeff == 0 && model.moe_router_load_balancing_type == "gbs_aux_loss") {
    model.moe_router_load_balancing_type = ModelConfig().moe_router_load_balancing_type;
  }
  resolve_rope(model, given);
  resolve_windows(model, given);

  const DatasetConfig& data = config.train_dataset.dataloader.config;
  if (!given("model.seq_length") && (given("train_dataset.dataloader.config.seq_length") ||
                                     given("train_dataset.dataloader.seq_length"))) {
    model.seq_length = data.seq_length;
  }
  if (data.create_compressed_eod_mask) model.use_eod_attn_mask_compression = true;
}

int64_t part_of(int64_t steps, double ratio) {
  return static_cast<int64_t>(static_cast<double>(steps) * std::clamp(ratio, 0.0, 1.0));
}

void resolve_schedule(Config& config, const IsGiven& given) {
  LrSchedulerConfig& lr = config.lr_scheduler;
  const int64_t steps = config.training.steps;
  if (lr.warmup_ratio) lr.warmup_steps = part_of(steps, *lr.warmup_ratio);
  if (lr.decay_ratio) lr.decay_steps = std::max<int64_t>(1, part_of(steps, *lr.decay_ratio));
  if (lr.decay_start_ratio) lr.decay_start_steps = part_of(steps, *lr.decay_start_ratio);
  if (!given("lr_scheduler.base_lr")) lr.base_lr = lr.learning_rate;
  if (!given("lr_scheduler.t_max")) lr.t_max = std::max<int64_t>(1, steps);
  if (lr.lr_end2 == 0.0) lr.lr_end2 = lr.lr_end1;
}

}  // namespace

void set_lr_schedule_defaults(std::string_view type, LrSchedulerConfig& schedule) {
  if (type == "CosineWithRestartsAndWarmUpLR") schedule.num_cycles = 1.0;
  if (type == "PolynomialWithWarmUpLR" || type == "WarmUpStableDecayLR") schedule.lr_end = 1e-7;
}

void resolve(Config& config, const OptimizerTable& optimizers, const IsGiven& given) {
  config.optimizer.kind = optimizers.find(config.optimizer.type);
  resolve_rows(config);
  if (config.optimizer.kind && !given("optimizer.momentum")) {
    config.optimizer.momentum = config.optimizer.kind->default_momentum;
  }
  if (!config.model.model_type.empty()) resolve_model(config, given);
  resolve_schedule(config, given);
}

}  // namespace tessera
