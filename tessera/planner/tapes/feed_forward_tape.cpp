#include <algorithm>

#include "tessera/planner/tapes/tape_parts.h"

namespace tessera {
namespace {

using Tensor = ActivationTape::Tensor;

// Rows on their way to their experts or back, with even routing.
std::vector<Work> expert_messages(const TapeParts& p, int64_t rows) {
  const int64_t hidden = p.model.hidden_size;
  const int64_t node = p.parallelism.npu_nums_per_device;
  const auto message = [&](std::string_view operation, int64_t ranks, int64_t stride,
                           int64_t sent) {
    return message_work(Axis::kEp, operation, ranks, stride, p.bytes(sent, hidden));
  };
  if (p.parallelism.moe_token_dispatcher_type == "alltoall" || p.dims.ep % node != 0) {
    return {message("all_to_all", p.dims.ep, 1, rows / p.dims.ep * (p.dims.ep - 1))};
  }
  // Every token once to the rank's place on each other node, there to the experts of the node.
  const int64_t nodes = p.dims.ep / node;
  std::vector<Work> work;
  if (nodes > 1) work.push_back(message("all_gather", nodes, node, p.sizes.slice * (nodes - 1)));
  if (node > 1) work.push_back(message("all_to_all", node, 1, rows / node * (node - 1)));
  if (work.empty()) work.push_back(elements_work(0.0));
  return work;
}

// [S, H] -> scores of the experts and the weights of the chosen ones.
Tensor router(const TapeParts& p, TapeModules& modules, Tensor y) {
  const LocalSizes& s = p.sizes;
  const ModelConfig& m = p.model;
  const int64_t element = size_of(m.moe_router_dtype);
  const int64_t chosen = s.slice * m.num_experts_per_tok;
  const int64_t of_experts = s.slice * m.n_routed_experts * element;
  return modules(LayerModule::kRouter, [&] {
    Tensor x = y;
    if (element != s.element) {
      ActivationTape::Operation convert;
      convert.inputs = {y};
      convert.bytes = s.slice * m.hidden_size * element;
      x = p.tape.add(convert);
    }
    ActivationTape::Operation linear;
    linear.inputs = {x};
    linear.bytes = of_experts;
    if (!p.is_frozen()) {
      linear.saved = {x};
      linear.weight_gradient = m.n_routed_experts * m.hidden_size * element;
    }
    linear.forward = {product_work(s.slice, m.hidden_size, m.n_routed_experts)};
    linear.backward = {product_work(s.slice, m.hidden_size, m.n_routed_experts, 2)};
    const Tensor logits = p.tape.add(linear);
    ActivationTape::Operation score;
    score.inputs = {logits};
    score.bytes = of_experts;
    score.saves_result = true;
    if (m.moe_aux_loss_coeff > 0) {  // normalised once more, and who is in which group
      score.keeps += of_experts + s.rows * s.slice * element;
    }
    if (m.moe_z_loss_coeff > 0) score.saved = {logits};
    const Tensor scores = p.tape.add(score);
    ActivationTape::Operation choose;
    choose.inputs = {scores};
    choose.bytes = chosen * element;
    choose.keeps = chosen * (8 + (m.norm_topk_prob ? 2 * element : 0));
    choose.gradient = of_experts;
    return p.tape.add(choose);
  });
}

}  // namespace

Tensor mlp_tape(const TapeParts& p, TapeModules& modules, Tensor y) {
  const int64_t hidden = p.model.hidden_size;
  const int64_t width = p.model.intermediate_size / p.dims.tp;
  return modules(LayerModule::kMlp, [&] {
    const Tensor gate_up = modules(LayerModule::kGateUp, [&] {
      return p.with_adapters(p.column(y, hidden, 2 * width), y, hidden,
                             {{ParamRole::kMlpGate, width}, {ParamRole::kMlpUp, width}},
                             p.sizes.tokens, TapeParts::Over::kGathered);
    });
    const Tensor inner = p.gated_unit(gate_up, p.sizes.tokens, width);
    return modules(LayerModule::kDown, [&] {
      return p.with_adapters(p.row(inner, width, hidden), inner, width,
                             {{ParamRole::kMlpDown, hidden}}, p.sizes.slice,
                             TapeParts::Over::kScattered);
    });
  });
}

Tensor experts_tape(const TapeParts& p, TapeModules& modules, Tensor y) {
  const LocalSizes& s = p.sizes;
  const ModelConfig& m = p.model;
  const int64_t hidden = m.hidden_size;
  const int64_t rows = s.slice * m.num_experts_per_tok;
  const int64_t here = m.n_routed_experts / p.dims.ep;
  const bool travels = p.dims.ep > 1;
  const bool reordered = travels && here > 1;  // by member -> by expert
  // Rows that move: to other ranks, or into another order.
  const auto move = [&](Tensor x, bool lets_go, bool to_others) {
    ActivationTape::Operation o;
    o.inputs = {x};
    o.bytes = p.bytes(rows, hidden);
    if (to_others) o.forward = o.backward = expert_messages(p, rows);
    const Tensor moved = p.tape.add(o);
    if (lets_go) p.tape.release(x);
    return moved;
  };
  return modules(LayerModule::kMlp, [&] {
    const Tensor weights = router(p, modules, y);
    ActivationTape::Operation spread;
    spread.inputs = {y};
    spread.bytes = p.bytes(rows, hidden);
    spread.keeps = rows * 8;
    Tensor x = p.tape.add(spread);
    if (travels) x = move(x, true, true);
    if (reordered) x = move(x, true, false);

    Tensor out = modules(LayerModule::kExperts, [&] {
      const auto grouped = [&](Tensor in, int64_t from, int64_t to) {
        ActivationTape::Operation o;
        o.inputs = {in};
        o.bytes = p.bytes(rows, to);
        if (!p.is_frozen()) {
          o.saved = {in};
          o.weight_gradient = here * p.bytes(from, to);
        }
        const int64_t each = std::max<int64_t>(1, rows / here);
        o.forward = {product_work(each, from, to, here, WorkKind::kExperts)};
        o.backward = {
            product_work(each, from, to, p.is_frozen() ? here : 2 * here, WorkKind::kExperts)};
        return p.tape.add(o);
      };
      const int64_t width = m.moe_intermediate_size;
      const Tensor gate_up =
          p.with_adapters(grouped(x, hidden, 2 * width), x, hidden,
                          {{ParamRole::kExpertGate, width}, {ParamRole::kExpertUp, width}}, rows,
                          TapeParts::Over::kNone, here);
      const Tensor inner = p.gated_unit(gate_up, rows, width);
      return p.with_adapters(grouped(inner, width, hidden), inner, width,
                             {{ParamRole::kExpertDown, hidden}}, rows, TapeParts::Over::kNone,
                             here);
    });
    Tensor shared = -1;
    if (const int64_t width = m.moe_shared_expert_intermediate_size; width > 0) {
      shared = modules(LayerModule::kSharedExperts, [&] {
        const Tensor gate_up = p.with_adapters(
            p.linear(y, s.slice, hidden, 2 * width), y, hidden,
            {{ParamRole::kSharedGate, width}, {ParamRole::kSharedUp, width}}, s.slice);
        const Tensor inner = p.gated_unit(gate_up, s.slice, width);
        const Tensor made = p.with_adapters(p.linear(inner, s.slice, width, hidden), inner, width,
                                            {{ParamRole::kSharedDown, hidden}}, s.slice);
        if (!m.use_shared_expert_gating) return made;
        ActivationTape::Operation gate;
        gate.inputs = {made};
        gate.bytes = p.bytes(s.slice, hidden);
        gate.saved = {made};
        return p.tape.add(gate);
      });
    }
    if (reordered) out = move(out, false, false);
    if (travels) out = move(out, false, true);
    ActivationTape::Operation combine;
    combine.inputs = {out, weights};
    combine.bytes = p.bytes(s.slice, hidden);
    combine.saved = {out, weights};
    combine.keeps = rows * (8 + (size_of(m.moe_router_dtype) == s.wide ? 0 : s.wide));
    const Tensor combined = p.tape.add(combine);
    return shared < 0 ? combined : p.sum(combined, shared, p.bytes(s.slice, hidden));
  });
}

}  // namespace tessera
