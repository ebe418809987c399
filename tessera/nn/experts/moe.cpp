#include "tessera/nn/experts/moe.h"

#include <ATen/ATen.h>

#include "tessera/base/error.h"

// T tokens of the residual stream here, H hidden, k choices, R rows at the experts of this rank.

namespace tessera {

struct MixtureOfExperts::Sent {
  std::unique_ptr<DispatchCall> call;
  at::Tensor routed;  // [routed tokens] int64, where some tokens are not; else undefined
  Tensors losses;
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
  router_call.module = LayerModule::kRouter;
  router_call.weights = [this] { return router->weights(); };
  // {x of the routed tokens, their rows, their places or ids} -> {expert ids, weights, counts,
  // loss?}
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
  experts_call.module = LayerModule::kExperts;
  experts_call.weights = [this] { return experts->weights(); };
  // {rows, counts} -> {rows}
  experts_call.body = [this](const Tensors& inputs, const LayerContext&) {
    const at::Tensor& counts = inputs[1];
    const int64_t* first = counts.const_data_ptr<int64_t>();
    return Tensors{experts->forward(inputs[0], {first, first + counts.numel()})};
  };
  shared_call.module = LayerModule::kSharedExperts;
  shared_call.weights = [this] {
    std::vector<Weight*> all = shared->weights();
    if (!shared_gate) return all;
    for (Weight* weight : shared_gate->weights()) all.push_back(weight);
    return all;
  };
  shared_call.body = [this](const Tensors& x, const LayerContext& context) {
    at::Tensor out = shared->forward(x[0], context).y_TH;
    if (shared_gate) out = out * shared_gate->forward(x[0], context).sigmoid();
    return Tensors{out};
  };
}

size_t MixtureOfExperts::losses() const { return router_loss.on() ? 1 : 0; }

MixtureOfExperts::Sent MixtureOfExperts::send(const at::Tensor& x_TH, const LayerContext& context) {
  Sent sent;
  at::Tensor x = x_TH;
  at::Tensor rows = rows_of_tokens(x.size(0), context, x.device());
  at::Tensor places = rows;  // in the run; only a forced balance reads them, and a table reads ids
  if (router->table.defined()) {
    places = slice_of(context.token_ids, context);
  } else if (router->force_balance) {
    places = slice_of(context.sample_ids, context) * context.seq_length +
             slice_of(context.in_sample, context);
  }
  if (context.padded.defined()) {
    sent.routed = slice_of(context.padded, context).logical_not().nonzero().squeeze(1);
    x = x.index_select(0, sent.routed);
    rows = rows.index_select(0, sent.routed);
    places = places.index_select(0, sent.routed);
  }
  const Tensors routes = router_call({x, rows, places}, context);
  at::Tensor weights = routes[1];
  if (router_loss.on()) sent.losses.push_back(routes[2]);
  if (weights_on_input) {
    x = x * weights.to(x.scalar_type());
    weights = at::Tensor();
  }
  sent.call = dispatcher->dispatch(x, routes[0], weights, router->experts());
  return sent;
}

FeedForward::Output MixtureOfExperts::forward(const at::Tensor& x_TH, const LayerContext& context) {
  Sent sent = send(x_TH, context);
  const at::Tensor counts = at::tensor(sent.call->rows_of_expert, at::kLong);
  const at::Tensor made_RH = experts_call({sent.call->rows, counts}, context)[0];
  at::Tensor shared_TH;
  if (shared) shared_TH = shared_call({x_TH}, context)[0];
  at::Tensor y = sent.call->combine(made_RH, sent.call->weights);
  if (sent.routed.defined()) {
    y = at::zeros({x_TH.size(0), y.size(1)}, y.options()).index_copy(0, sent.routed, y);
  }
  if (shared) y = y + shared_TH;
  return {y, std::move(sent.losses)};
}

std::vector<Weight*> MixtureOfExperts::weights() { return weights_of(modules()); }

std::vector<ModuleCall*> MixtureOfExperts::modules() {
  std::vector<ModuleCall*> all{&router_call, &experts_call};
  if (shared) all.push_back(&shared_call);
  return all;
}

}  // namespace tessera
