#include "tessera/train/step_sums.h"

#include <ATen/ATen.h>

#include <cmath>

#include "tessera/comm/memory.h"

namespace tessera {
namespace {

// Summed where they are and read once: a read waits for the device.
template <typename Key>
double sum_of(const std::map<Key, at::Tensor>& values) {
  at::Tensor sum;
  for (const auto& [key, value] : values) {
    const at::Tensor term = value.to(at::kDouble);
    sum = sum.defined() ? sum + term : term;
  }
  return sum.defined() ? sum.item<double>() : 0.0;
}

int64_t layers_of(const ModelConfig& model) {
  return model.num_hidden_layers + model.num_nextn_predict_layers;
}

}  // namespace

double summed_loss(const Sinks& sinks) { return sum_of(sinks.loss); }

StepSums::StepSums(const Sinks& sinks, double squares, bool stop, const ModelConfig& model,
                   const DeviceMesh& mesh)
    : loss(mesh.coordinate(Axis::kTp) == 0 ? summed_loss(sinks) : 0.0),
      squares(squares),
      stop(stop ? 1.0 : 0.0),
      mtp_loss(mesh.coordinate(Axis::kTp) == 0 ? sum_of(sinks.mtp_loss) : 0.0),
      load_balance(sum_of(sinks.load_balance_loss)),
      z_loss(sum_of(sinks.z_loss)),
      memory(at::zeros({2, mesh.size(Axis::kWorld)}, at::kDouble)),
      times(at::zeros({2, mesh.size(Axis::kWorld)}, at::kDouble)) {
  if (!model.is_moe()) return;
  const auto& counts = sinks.tokens_per_expert;
  const at::Device device = counts.empty() ? at::Device(at::kCPU) : counts.begin()->second.device();
  tokens_per_expert = at::zeros({layers_of(model), model.n_routed_experts},
                                at::TensorOptions().dtype(at::kDouble).device(device));
  for (const auto& [key, count] : counts) tokens_per_expert[key.first].add_(count);
  tokens_per_expert = tokens_per_expert.cpu();
}

void StepSums::take_memory(const DeviceMesh& mesh) {
  const MemoryUse use = memory_use(memory_rank());
  memory[0][mesh.rank()] = static_cast<double>(use.current);
  memory[1][mesh.rank()] = static_cast<double>(use.peak);
  reset_peak_memory(memory_rank());
}

void StepSums::take_times(double own, double reading, const DeviceMesh& mesh) {
  times[0][mesh.rank()] = own;
  times[1][mesh.rank()] = reading;
}

void StepSums::sum(const ProcessGroup& world) {
  at::Tensor all =
      at::tensor({loss, squares, stop, mtp_loss, load_balance, z_loss, writing}, at::kDouble);
  const std::vector<int64_t> sizes{all.numel(), memory.numel(), times.numel(),
                                   tokens_per_expert.defined() ? tokens_per_expert.numel() : 0};
  all = at::cat(
      {all, memory.flatten(), times.flatten(),
       tokens_per_expert.defined() ? tokens_per_expert.flatten() : at::empty({0}, at::kDouble)});
  world.all_reduce({all}).wait();
  const auto* values = all.const_data_ptr<double>();
  loss = values[0];
  squares = values[1];
  stop = values[2];
  mtp_loss = values[3];
  load_balance = values[4];
  z_loss = values[5];
  writing = values[6];
  const std::vector<at::Tensor> pieces = all.split_with_sizes(sizes);
  memory = pieces[1].view(memory.sizes());
  times = pieces[2].view(times.sizes());
  if (tokens_per_expert.defined()) tokens_per_expert = pieces[3].view(tokens_per_expert.sizes());
}

void StepSums::report(StepMetrics& metrics, const ModelConfig& model) const {
  metrics.loss = loss;
  metrics.grad_norm = std::sqrt(squares);
  metrics.memory = memory[0].max().to(at::kLong).item<int64_t>();
  metrics.peak_memory = memory[1].max().to(at::kLong).item<int64_t>();
  const double* peaks = memory[1].const_data_ptr<double>();
  metrics.peak_memory_of_rank.assign(peaks, peaks + memory.size(1));
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
