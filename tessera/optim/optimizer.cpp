#include "tessera/optim/optimizer.h"

#include <ATen/ATen.h>
#include <fnmatch.h>

#include "tessera/base/error.h"

namespace tessera {
namespace {

bool matches(const std::string& rule, const std::string& name) {
  return name.find(rule) != std::string::npos || fnmatch(rule.c_str(), name.c_str(), 0) == 0;
}

bool any_matches(const std::optional<std::vector<std::string>>& rules,
                 const std::vector<std::string>& names) {
  if (!rules) return false;
  for (const std::string& rule : *rules) {
    for (const std::string& name : names) {
      if (matches(rule, name)) return true;
    }
  }
  return false;
}

// What MindFormers calls the tensor that holds this parameter (fused there: several map to one).
std::string mindformers_name(std::string name) {
  static const std::vector<std::pair<std::string, std::string>> kRenames = {
      {"model.embed_tokens.", "embedding.word_embeddings."},
      {"lm_head.", "output_layer."},
      {"model.norm.", "decoder.final_layernorm."},
      {"model.layers.", "decoder.layers."},
      {".post_attention_layernorm.", ".pre_mlp_layernorm."},
      {".self_attn.", ".self_attention."},
      {".q_proj.", ".linear_qkv."},
      {".k_proj.", ".linear_qkv."},
      {".v_proj.", ".linear_qkv."},
      {".o_proj.", ".linear_proj."},
      {".q_norm.", ".q_layernorm."},
      {".k_norm.", ".k_layernorm."},
      {".q_a_layernorm.", ".q_layernorm."},
      {".kv_a_layernorm.", ".k_layernorm."},
      {".q_a_proj.", ".linear_qkv."},
      {".kv_a_proj_with_mqa.", ".linear_qkv."},
      {".q_b_proj.", ".linear_qb."},
      {".kv_b_proj.", ".linear_kvb."},
      {".mlp.gate_proj.", ".mlp.linear_fc1."},
      {".mlp.up_proj.", ".mlp.linear_fc1."},
      {".mlp.down_proj.", ".mlp.linear_fc2."},
      {".mlp.gate.", ".mlp.router."},
  };
  for (const auto& [from, to] : kRenames) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  }
  return name;
}

// Parameters that take the same settings: libtorch's fused kernels run over lists.
struct Group {
  double weight_decay;
  std::vector<size_t> params;  // rows of the table with something in them
};

std::vector<Group> decay_groups(const OptimizerConfig& config, const ParamTable& table) {
  std::vector<Group> groups{{config.weight_decay, {}}, {0.0, {}}};
  for (size_t i = 0; i < table.params().size(); ++i) {
    const ShardedParam& param = *table.params()[i];
    if (param.value.numel() == 0 || !param.trainable) continue;
    groups[is_decayed(config, param.name, param.shape.size()) ? 0 : 1].params.push_back(i);
  }
  return groups;
}

class AdamW final : public Optimizer {
 public:
  AdamW(const OptimizerConfig& config, ParamTable& table) : config_(config), table_(table) {
    for (const auto& param : table.params()) {
      exp_avg_.push_back(at::zeros_like(param->value));
      exp_avg_sq_.push_back(at::zeros_like(param->value));
      if (config.amsgrad) max_exp_avg_sq_.push_back(at::zeros_like(param->value));
    }
    groups_ = decay_groups(config, table);
  }

  void step(double lr, double gradient_scale) override {
    for (const Group& group : groups_) {
      std::vector<at::Tensor> values, grads, avgs, squares, maxima, steps;
      for (const size_t i : group.params) {
        ShardedParam& param = *table_.params()[i];
        values.push_back(param.value);
        grads.push_back(param.grad);
        avgs.push_back(exp_avg_[i]);
        squares.push_back(exp_avg_sq_[i]);
        if (config_.amsgrad) maxima.push_back(max_exp_avg_sq_[i]);
        // The kernel counts from what it is given: the number of this update.
        steps.push_back(at::scalar_tensor(static_cast<double>(updates_ + 1),
                                          param.value.options().dtype(at::kFloat)));
      }
      if (values.empty()) continue;
      if (gradient_scale != 1.0) {
        for (at::Tensor& grad : grads) grad.mul_(gradient_scale);
      }
      at::_fused_adamw_(values, grads, avgs, squares, maxima, steps, lr, config_.betas[0],
                        config_.betas[1], group.weight_decay, config_.eps, config_.amsgrad,
                        config_.maximize);
    }
    ++updates_;
  }

  std::vector<std::pair<std::string, at::Tensor>> state(size_t param) const override {
    std::vector<std::pair<std::string, at::Tensor>> all{{"exp_avg", exp_avg_[param]},
                                                        {"exp_avg_sq", exp_avg_sq_[param]}};
    if (config_.amsgrad) all.emplace_back("max_exp_avg_sq", max_exp_avg_sq_[param]);
    return all;
  }

 private:
  OptimizerConfig config_;
  ParamTable& table_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_, max_exp_avg_sq_;
};

class Sgd final : public Optimizer {
 public:
  Sgd(const OptimizerConfig& config, ParamTable& table) : config_(config), table_(table) {
    if (config.momentum != 0) {
      for (const auto& param : table.params()) buffers_.push_back(at::zeros_like(param->value));
    }
    groups_ = decay_groups(config, table);
  }

  void step(double lr, double gradient_scale) override {
    for (const Group& group : groups_) {
      for (const size_t i : group.params) {
        ShardedParam& param = *table_.params()[i];
        at::Tensor& grad = param.grad;
        if (gradient_scale != 1.0) grad.mul_(gradient_scale);
        at::Tensor update =
            group.weight_decay == 0 ? grad : grad.add(param.value, group.weight_decay);
        if (config_.momentum != 0) {
          update = buffers_[i].mul_(config_.momentum).add_(update);
        }
        param.value.sub_(update, lr);
      }
    }
    ++updates_;
  }

  std::vector<std::pair<std::string, at::Tensor>> state(size_t param) const override {
    if (buffers_.empty()) return {};
    return {{"momentum_buffer", buffers_[param]}};
  }

 private:
  OptimizerConfig config_;
  ParamTable& table_;
  std::vector<Group> groups_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace

bool is_decayed(const OptimizerConfig& config, const std::string& name, size_t dimensions) {
  const std::vector<std::string> names{name, mindformers_name(name)};
  if (any_matches(config.weight_decay_include, names)) return true;
  if (any_matches(config.weight_decay_exclude, names)) return false;
  return dimensions > 1 && !name.ends_with(".bias");
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, ParamTable& table) {
  if (config.type == "AdamW") return std::make_unique<AdamW>(config, table);
  if (config.type == "SGD") return std::make_unique<Sgd>(config, table);
  throw ConfigError("optimizer.type = " + config.type + " is not built; legal: AdamW, SGD");
}

}  // namespace tessera
