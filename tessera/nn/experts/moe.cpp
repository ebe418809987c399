#include "tessera/nn/experts/moe.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"

// T tokens of the residual stream here, H hidden, k choices, R rows at the experts of this rank.

namespace tessera {

struct MixtureOfExperts::Use {
  std::unique_ptr<DispatchCall> call;
  at::Tensor routed;   // [routed tokens] int64, where some are not; else undefined
  int64_t tokens = 0;  // T
};

namespace {

// [T] int64: per-token facts of the residual stream's slice.
at::Tensor slice_of(const at::Tensor& facts, const LayerContext& context) {
  const auto [begin, end] = context.residual_tokens;
  return facts.narrow(0, begin, end - begin);
}

at::Tensor rows_of_tokens(int64_t tokens, const LayerContext& context, const at::Device& device) {
  const auto [begin, end] = context.residual_tokens;
  TESSERA_CHECK_EQ(tokens, end - begin, "tokens of the residual stream");
  const int64_t all =
      context.token_ids.defined() ? context.token_ids.size(0) : context.rows * context.seq_length;
  return at::arange(begin, end, at::TensorOptions().dtype(at::kLong).device(device))
      .div_(all / context.rows, "floor");
}

}  // namespace

MixtureOfExperts::MixtureOfExperts() {
  router_call.names = {"mlp.router", "mlp.gate"};
  router_call.weights = [this] { return std::vector<Weight*>{&router->weight}; };
  // {x of the routed tokens, their rows, their places} -> {expert ids, weights, counts, loss?}
  router_call.body = [this](const Tensors& inputs, const LayerContext& context) {
    const Routes routes = router->forward(inputs[0], inputs[2]);
    Tensors out{routes.expert_ids, routes.weights};
    if (router_loss.on()) {
      out.push_back(router_loss.forward(*router, routes.logits, inputs[1], layer, context));
    }
    if (Sinks* sinks = context.sinks()) {
      sinks->tokens_per_expert[{layer, context.micro_batch}] =
          routes.expert_ids.flatten().bincount({}, router->experts());
    }
    return out;
  };
  experts_call.names = {"mlp.experts"};
  experts_call.weights = [this] { return std::vector<Weight*>{&experts->gate_up, &experts->down}; };
  // {rows, counts} -> {rows}
  experts_call.body = [this](const Tensors& inputs, const LayerContext&) {
    const at::Tensor& counts = inputs[1];
    const int64_t* first = counts.const_data_ptr<int64_t>();
    return Tensors{experts->forward(inputs[0], {first, first + counts.numel()})};
  };
  shared_call.names = {"mlp.shared_experts"};
  shared_call.weights = [this] {
    std::vector<Weight*> all = shared->weights();
    if (shared_gate) all.push_back(&shared_gate->weight);
    return all;
  };
  shared_call.body = [this](const Tensors& x, const LayerContext& context) {
    at::Tensor out = shared->forward(x[0], context);
    if (shared_gate) out = out * shared_gate->forward(x[0]).sigmoid();
    return Tensors{out};
  };
}

size_t MixtureOfExperts::losses() const { return router_loss.on() ? 1 : 0; }

Tensors MixtureOfExperts::dispatch(Use& use, const at::Tensor& x_TH, const LayerContext& context) {
  use.tokens = x_TH.size(0);
  at::Tensor x = x_TH;
  at::Tensor rows = rows_of_tokens(use.tokens, context, x.device());
  at::Tensor places = rows;  // in the run; only a forced balance reads them
  if (router->force_balance) {
    places = slice_of(context.sample_ids, context) * context.seq_length +
             slice_of(context.in_sample, context);
  }
  if (context.padded.defined()) {
    use.routed = slice_of(context.padded, context).logical_not().nonzero().squeeze(1);
    x = x.index_select(0, use.routed);
    rows = rows.index_select(0, use.routed);
    places = places.index_select(0, use.routed);
  }
  Tensors routes = router_call({x, rows, places}, context);
  at::Tensor weights = routes[1];
  if (weights_on_input) {
    x = x * weights.to(x.scalar_type());
    weights = at::Tensor();
  }
  use.call = dispatcher->dispatch(x, routes[0], weights, router->experts());
  // Between segments: rows, weights (if they are still to be applied), x (for the shared experts),
  // the loss.
  Tensors out{use.call->rows};
  if (use.call->weights.defined()) out.push_back(use.call->weights);
  if (shared) out.push_back(x_TH);
  if (router_loss.on()) out.push_back(routes[2]);
  return out;
}

Tensors MixtureOfExperts::run_experts(Use& use, Tensors values, const LayerContext& context) {
  const auto& counts = use.call->rows_of_expert;
  const at::Tensor count_tensor = at::tensor(counts, at::kLong);
  values[0] = experts_call({values[0], count_tensor}, context)[0];
  if (shared) {
    const size_t x = weights_on_input ? 1 : 2;
    values[x] = shared_call({values[x]}, context)[0];
  }
  return values;
}

Tensors MixtureOfExperts::combine(Use& use, Tensors values) {
  size_t next = 1;
  const at::Tensor weights = weights_on_input ? at::Tensor() : values[next++];
  at::Tensor out = use.call->combine(values[0], weights);
  if (use.routed.defined()) {
    out = at::zeros({use.tokens, out.size(1)}, out.options()).index_copy(0, use.routed, out);
  }
  if (shared) out = out + values[next++];
  Tensors result{out};
  result.insert(result.end(), values.begin() + static_cast<std::ptrdiff_t>(next), values.end());
  return result;
}

std::vector<Segment> MixtureOfExperts::segments() {
  const auto use = std::make_shared<Use>();
  return {{"dispatch",
           [this, use](Tensors x, const LayerContext& context) {
             return dispatch(*use, x[0], context);
           }},
          {"experts",
           [this, use](Tensors values, const LayerContext& context) {
             return run_experts(*use, std::move(values), context);
           }},
          {"combine", [this, use](Tensors values, const LayerContext&) {
             return combine(*use, std::move(values));
           }}};
}

std::vector<Weight*> MixtureOfExperts::weights() {
  std::vector<Weight*> all{&router->weight, &experts->gate_up, &experts->down};
  if (shared) {
    for (Weight* weight : shared_call.weights()) all.push_back(weight);
  }
  return all;
}

std::vector<ModuleCall*> MixtureOfExperts::modules() {
  std::vector<ModuleCall*> all{&router_call, &experts_call};
  if (shared) all.push_back(&shared_call);
  return all;
}

}  // namespace tessera
