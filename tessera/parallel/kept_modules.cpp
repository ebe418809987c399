#include "tessera/parallel/kept_modules.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "tessera/base/error.h"
#include "tessera/parallel/custom_gradient.h"

namespace tessera {
namespace {

Tensors detached(const Tensors& tensors, bool copied) {
  Tensors result;
  for (const at::Tensor& tensor : tensors) {
    result.push_back(copied ? tensor.detach().clone() : tensor.detach());
  }
  return result;
}

Tensors run_first(const ModuleCall& call, const Tensors& inputs, const LayerContext& context) {
  KeptModules::Run run;
  for (const at::Tensor& input : inputs) {
    run.inputs.push_back(input.detach().set_requires_grad(input.is_floating_point()));
  }
  {
    const at::AutoGradMode grad_mode(true);
    run.outputs = call.body(run.inputs, context);
  }
  Tensors results = detached(run.outputs, result_is_overwritten(call.module));
  const bool added =
      context.step->kept->runs.emplace(std::pair(&call, context.micro_batch), std::move(run))
          .second;
  TESSERA_CHECK(added, "a module is kept twice for micro-batch ", context.micro_batch);
  return results;
}

// Gradients of the inputs, then of the weights, from those of the floating-point results.
Tensors differentiate(const KeptModules::Run& run, const Tensors& weights, const Tensors& grads) {
  Tensors wanted, roots, seeds;
  for (const at::Tensor& input : run.inputs) {
    if (input.requires_grad()) wanted.push_back(input);
  }
  wanted.insert(wanted.end(), weights.begin(), weights.end());
  size_t next = 0;
  for (const at::Tensor& output : run.outputs) {
    if (!output.is_floating_point()) continue;
    const at::Tensor& seed = grads[next++];
    if (!output.requires_grad()) continue;
    roots.push_back(output);
    seeds.push_back(seed);
  }
  const at::AutoGradMode grad_mode(true);
  const Tensors made = torch::autograd::grad(roots, wanted, seeds, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
  Tensors result;
  next = 0;
  for (const at::Tensor& input : run.inputs) {
    result.push_back(input.requires_grad() ? made[next++] : at::Tensor());
  }
  result.insert(result.end(), made.begin() + static_cast<std::ptrdiff_t>(next), made.end());
  return result;
}

}  // namespace

Tensors kept(const ModuleCall& call, const Tensors& inputs, const LayerContext& context) {
  KeptModules* const store = context.step->kept;
  if (store == nullptr) return call.body(inputs, context);
  if (!context.recompute) return run_first(call, inputs, context);
  const auto found = store->runs.find({&call, context.micro_batch});
  TESSERA_CHECK(found != store->runs.end(), "nothing was kept for micro-batch ",
                context.micro_batch);
  KeptModules::Run run = std::move(found->second);
  store->runs.erase(found);
  Tensors weights;
  for (const Weight* weight : call.weights()) {
    if (!weight->frozen) weights.push_back(weight->value);
  }
  Tensors edges = inputs;
  edges.insert(edges.end(), weights.begin(), weights.end());
  Tensors results = detached(run.outputs, false);
  return custom_gradients(edges, std::move(results),
                          [run = std::move(run), weights = std::move(weights)](
                              const Tensors& grads) { return differentiate(run, weights, grads); });
}

}  // namespace tessera
