#include "tessera/models/build_moe.h"

#include <ATen/ATen.h>

#include "tessera/models/build_parts.h"

namespace tessera {

namespace {

std::unique_ptr<Router> make_router(const ModelConfig& model, const WeightFactory& factory,
                                    int64_t layer) {
  auto router = std::make_unique<Router>();
  router->weight = factory.make(layer, {ParamRole::kRouter});
  router->offset = factory.make(layer, {ParamRole::kRouterOffset});
  if (model.moe_router_enable_expert_bias) {
    router->bias =
        at::zeros({model.n_routed_experts}, at::TensorOptions().dtype(router->weight.dtype));
  }
  router->function = score_function(model.moe_router_score_function);
  router->top_k = model.num_experts_per_tok;
  router->groups = model.n_group.value_or(1);
  router->top_k_groups = model.topk_group.value_or(router->groups);
  router->normalize = model.norm_topk_prob;
  router->scale = model.routed_scaling_factor;
  router->force_balance = model.moe_router_force_expert_balance;
  return router;
}

std::unique_ptr<Mlp> make_shared(const ModelConfig& model, const WeightFactory& factory,
                                 int64_t layer) {
  using enum ParamRole;
  if (!factory.has(layer, kSharedGate)) return nullptr;
  auto mlp = std::make_unique<Mlp>();
  mlp->gate_up_proj = std::make_unique<Projections>();
  mlp->gate_up_proj->weight = factory.make(layer, {kSharedGate, kSharedUp});
  mlp->gate_up_proj->part_rows = factory.rows(layer, {kSharedGate, kSharedUp});
  mlp->down_proj = std::make_unique<Linear>();
  mlp->down_proj->weight = factory.make(layer, {kSharedDown});
  mlp->unit = gated_unit_of(model);
  return mlp;
}

}  // namespace

std::unique_ptr<MixtureOfExperts> build_moe(const ModelConfig& model, const WeightFactory& factory,
                                            int64_t layer) {
  using enum ParamRole;
  auto moe = std::make_unique<MixtureOfExperts>();
  moe->layer = layer;
  moe->router = make_router(model, factory, layer);
  moe->router_loss.balance = model.moe_aux_loss_coeff;
  moe->router_loss.z = model.moe_z_loss_coeff;
  moe->router_loss.scope = balance_scope(model.moe_router_load_balancing_type);
  moe->dispatcher = std::make_unique<TokenDispatcher>();
  moe->experts = std::make_unique<Experts>();
  moe->experts->gate_up = factory.make_experts(layer, {kExpertGate, kExpertUp});
  moe->experts->down = factory.make_experts(layer, {kExpertDown});
  moe->experts->gate_up_bias = factory.make_experts(layer, {kExpertGateBias, kExpertUpBias});
  moe->experts->down_bias = factory.make_experts(layer, {kExpertDownBias});
  moe->experts->unit = gated_unit_of(model);
  moe->shared = make_shared(model, factory, layer);
  if (factory.has(layer, kSharedExpertGate)) {
    moe->shared_gate = std::make_unique<Linear>();
    moe->shared_gate->weight = factory.make(layer, {kSharedExpertGate});
  }
  moe->weights_on_input = model.moe_apply_probs_on_input;
  return moe;
}

}  // namespace tessera
