#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tessera/nn/kernels/gated_unit.h"
#include "tessera/nn/module_calls.h"

namespace tessera {

/// The feed-forward part of a layer, between its norm and its residual sum.
struct FeedForward {
  virtual ~FeedForward() = default;
  struct Output {
    at::Tensor y_TH;
    Tensors losses;  // losses() scalars that belong to the objective
  };
  virtual Output forward(const at::Tensor& x_TH, const LayerContext& context) = 0;
  virtual size_t losses() const { return 0; }
  virtual std::vector<Weight*> weights() = 0;
  virtual std::vector<ModuleCall*> modules() = 0;
};

/// down(unit(gate(x), up(x))): SwiGLU unless the model says otherwise.
struct Mlp : FeedForward {
  std::unique_ptr<Projections> gate_up_proj;  // parts gate, up
  std::unique_ptr<Linear> down_proj;
  GatedUnit unit;

  ModuleCall gate_up_call = stacked_call(LayerModule::kGateUp, gate_up_proj);
  ModuleCall down_call = linear_call(LayerModule::kDown, down_proj);

  Output forward(const at::Tensor& x_TH, const LayerContext& context) override;
  std::vector<Weight*> weights() override;
  std::vector<ModuleCall*> modules() override;
};

}  // namespace tessera
