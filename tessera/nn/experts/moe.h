#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "tessera/nn/experts/experts.h"
#include "tessera/nn/experts/router.h"
#include "tessera/nn/experts/router_loss.h"
#include "tessera/nn/experts/token_dispatcher.h"
#include "tessera/nn/mlp.h"

namespace tessera {

/// Feed-forward part with experts: sum over a token's k choices of weight x expert(x), plus the
/// shared experts. Works token by token on the residual stream's slice. Tokens that the loader made
/// up are neither routed nor counted.
struct MixtureOfExperts : FeedForward {
  MixtureOfExperts();

  int64_t layer = 0;  // in the whole model
  std::unique_ptr<Router> router;
  RouterLoss router_loss;
  std::unique_ptr<TokenDispatcher> dispatcher;
  std::unique_ptr<Experts> experts;
  std::unique_ptr<Mlp> shared;          // or null
  std::unique_ptr<Linear> shared_gate;  // [1, H]: sigmoid of it times the shared experts; or null
  bool weights_on_input = false;        // with one choice: the expert sees weight x token

  ModuleCall router_call;
  ModuleCall experts_call;
  ModuleCall shared_call;

  Output forward(const at::Tensor& x_TH, const LayerContext& context) override;
  size_t losses() const override;
  std::vector<Weight*> weights() override;
  std::vector<ModuleCall*> modules() override;

 private:
  struct Sent;  // tokens on their way to the experts
  Sent send(const at::Tensor& x_TH, const LayerContext& context);
};

}  // namespace tessera
