#include "tessera/parallel/activation_checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "tessera/parallel/custom_gradient.h"
#include "tessera/parallel/kept_modules.h"

namespace tessera {
namespace {

// Gradients of `edges` (inputs, then weights) from those of the floating-point results.
Tensors gradients_again(const ModuleCall& call, const Tensors& inputs, const Tensors& weights,
                        const LayerContext& context, const Tensors& output_grads) {
  const at::AutoGradMode grad_mode(true);
  Tensors leaves, wanted;
  for (const at::Tensor& input : inputs) {
    leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
    if (leaves.back().requires_grad()) wanted.push_back(leaves.back());
  }
  wanted.insert(wanted.end(), weights.begin(), weights.end());
  const Tensors outputs = call.body(leaves, context);
  Tensors roots, seeds;
  size_t next = 0;
  for (const at::Tensor& output : outputs) {
    if (!output.is_floating_point()) continue;
    const at::Tensor& seed = output_grads[next++];
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    seeds.push_back(seed);
  }
  const Tensors grads = torch::autograd::grad(roots, wanted, seeds, /*retain_graph=*/false,
                                              /*create_graph=*/false, /*allow_unused=*/true);
  Tensors result;
  next = 0;
  for (const at::Tensor& leaf : leaves) {
    result.push_back(leaf.requires_grad() ? grads[next++] : at::Tensor());
  }
  result.insert(result.end(), grads.begin() + static_cast<std::ptrdiff_t>(next), grads.end());
  return result;
}

}  // namespace

Tensors checkpointed(const ModuleCall& call, const Tensors& inputs, const LayerContext& context) {
  if (!at::GradMode::is_enabled()) return call.body(inputs, context);
  Tensors outputs;
  {
    const at::NoGradGuard no_grad;
    outputs = call.body(inputs, context);
  }
  Tensors weights;
  for (const Weight* weight : call.weights()) {
    if (!weight->frozen) weights.push_back(weight->value);
  }
  Tensors edges = inputs;
  edges.insert(edges.end(), weights.begin(), weights.end());
  Tensors kept;  // without the graph that made them
  for (const at::Tensor& input : inputs) {
    kept.push_back(input.detach().set_requires_grad(input.requires_grad()));
  }
  LayerContext again = context;  // by value: a shifted one does not live until the backward pass
  again.recompute = true;
  return custom_gradients(
      edges, std::move(outputs),
      [&call, kept = std::move(kept), weights = std::move(weights), again = std::move(again)](
          const Tensors& grads) { return gradients_again(call, kept, weights, again, grads); });
}

void activation_checkpoint(Decoder& decoder, const RecomputePlan& plan) {
  for (DecoderLayer* layer : decoder.all_layers()) {
    std::vector<const ModuleCall*> wrapped;
    for (ModuleCall* module : layer->modules()) {  // outer before inner
      if (plan.keeps(layer->index, module->module)) {
        module->wrapper = kept;
        continue;
      }
      if (!plan.selects(layer->index, module->module)) continue;
      if (std::ranges::any_of(
              wrapped, [&](const ModuleCall* w) { return is_inside(module->module, w->module); })) {
        continue;
      }
      module->wrapper = checkpointed;
      wrapped.push_back(module);
    }
  }
}

}  // namespace tessera
