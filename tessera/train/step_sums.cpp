#include "tessera/train/step_sums.h"

#include <ATen/ATen.h>

#include <cmath>

namespace tessera {
namespace {

template <typename Key>
double sum_of(const std::map<Key, at::Tensor>& values) {
  double sum = 0;
  for (const auto& [key, value] : values) sum += value.template item<double>();
  return sum;
}

int64_t layers_of(const ModelConfig& model) {
  return model.num_hidden_layers + model.num_nextn_predict_layers;
}

}  // namespace

double summed_loss(const Sinks& sinks) { return sum_of(sinks.loss); }

StepSums::StepSums(const Sinks& sinks, double squares, bool stop, const ModelConfig& model,
                   const DeviceMesh& mesh)
    : loss(mesh.coordinate("tp") == 0 ? summed_loss(sinks) : 0.0),
      squares(squares),
      stop(stop ? 1.0 : 0.0),
      mtp_loss(mesh.coordinate("tp") == 0 ? sum_of(sinks.mtp_loss) : 0.0),
      load_balance(sum_of(sinks.load_balance_loss)),
      z_loss(sum_of(sinks.z_loss)) {
  if (!model.is_moe()) return;
  tokens_per_expert = at::zeros({layers_of(model), model.n_routed_experts}, at::kDouble);
  for (const auto& [key, counts] : sinks.tokens_per_expert) {
    tokens_per_expert[key.first].add_(counts.to(at::kDouble));
  }
}

void StepSums::sum(const ProcessGroup& world) {
  at::Tensor all =
      at::tensor({loss, squares, stop, mtp_loss, load_balance, z_loss, writing}, at::kDouble);
  const int64_t scalars = all.numel();
  if (tokens_per_expert.defined()) all = at::cat({all, tokens_per_expert.flatten()});
  world.all_reduce({all}).wait();
  const auto* values = all.const_data_ptr<double>();
  loss = values[0];
  squares = values[1];
  stop = values[2];
  mtp_loss = values[3];
  load_balance = values[4];
  z_loss = values[5];
  writing = values[6];
  if (tokens_per_expert.defined()) {
    tokens_per_expert = all.slice(0, scalars).view(tokens_per_expert.sizes());
  }
}

void StepSums::report(StepMetrics& metrics, const ModelConfig& model) const {
  metrics.loss = loss;
  metrics.grad_norm = std::sqrt(squares);
  if (model.num_nextn_predict_layers > 0) metrics.mtp_loss = mtp_loss;
  if (!model.is_moe()) return;
  for (int64_t layer = 0; layer < layers_of(model); ++layer) {
    if (!model.is_moe_layer(layer)) continue;
    const double* counts =
        tokens_per_expert.const_data_ptr<double>() + layer * model.n_routed_experts;
    metrics.moe_layers.push_back(layer);
    metrics.tokens_per_expert.emplace_back(counts, counts + model.n_routed_experts);
  }
  if (model.moe_aux_loss_coeff > 0) {
    metrics.aux_loss = model.moe_aux_loss_coeff * load_balance;
    metrics.load_balancing_loss = load_balance / static_cast<double>(metrics.moe_layers.size());
  }
  if (model.moe_z_loss_coeff > 0) metrics.z_loss = z_loss;
}

}  // namespace tessera
