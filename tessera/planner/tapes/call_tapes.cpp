#include "tessera/planner/tapes/call_tapes.h"

#include <algorithm>

#include "tessera/base/box.h"
#include "tessera/layout/size_choices.h"
#include "tessera/planner/tapes/tape_parts.h"

namespace tessera {
namespace {

using Tensor = ActivationTape::Tensor;

}  // namespace

CallTapes::CallTapes(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                     int64_t rank)
    : config_(config),
      model_(config.model),
      dims_(dims),
      sizes_(config, dims, batch, rank),
      recompute_(config),
      vocabulary_(
          part_of(config.model.vocab_size, dims.tp, dims.index_on(Axis::kTp, rank)).size()) {}

int64_t CallTapes::batch_bytes() const {
  // Ids, labels, positions, places and samples; the mask. Ids, labels, positions and mask of the
  // tokens after the next.
  const int64_t next = model_.num_nextn_predict_layers > 0 ? 3 * 8 + 1 : 0;
  return sizes_.tokens * (5 * 8 + 1 + next);
}

int64_t CallTapes::rotary_bytes() const {
  return sizes_.tokens * model_.rotary_dim() * size_of(model_.rotary_dtype);
}

Tensor CallTapes::embedding(ActivationTape& tape, const ModelUnit& unit) const {
  const TapeParts p{tape, model_, dims_, sizes_, config_.parallelism, unit.adapted};
  const int64_t hidden = model_.hidden_size;
  ActivationTape::Operation look_up;
  look_up.bytes = p.bytes(sizes_.tokens, hidden);
  if (!p.is_frozen()) look_up.weight_gradient = p.bytes(vocabulary_, hidden);
  look_up.forward = {elements_work(static_cast<double>(2 * look_up.bytes))};
  look_up.backward = {
      elements_work(static_cast<double>(2 * look_up.bytes + look_up.weight_gradient))};
  if (dims_.tp == 1) {
    if (sizes_.wide != sizes_.element) {
      look_up.backward_extra = (sizes_.tokens + vocabulary_) * hidden * sizes_.wide;
    }
    return tape.add(look_up);
  }
  look_up.keeps = sizes_.tokens * 9;  // places in this rank's rows, and which are not
  const Tensor rows = tape.add(look_up);
  ActivationTape::Operation mask;
  mask.inputs = {rows};
  mask.bytes = p.bytes(sizes_.tokens, hidden);
  const Tensor masked = tape.add(mask);
  ActivationTape::Operation scatter;
  scatter.inputs = {masked};
  scatter.bytes = p.bytes(sizes_.slice, hidden);
  scatter.forward = {p.over_tp("reduce_scatter", hidden)};
  scatter.backward = {p.over_tp("all_gather", hidden)};
  const Tensor out = tape.add(scatter);
  tape.end_scope(out);
  return out;
}

Tensor CallTapes::layer(ActivationTape& tape, const ModelUnit& unit, Tensor x) const {
  const int64_t index = unit.layer;
  const TapeParts p{tape, model_, dims_, sizes_, config_.parallelism, unit.adapted};
  TapeModules modules(tape, recompute_, index);
  const int64_t hidden = model_.hidden_size;
  const int64_t bytes = p.bytes(sizes_.slice, hidden);
  const auto dropped = [&](Tensor y) {
    if (model_.hidden_dropout == 0) return y;
    ActivationTape::Operation o;
    o.inputs = {y};
    o.bytes = bytes;
    o.forward_extra = o.backward_extra = bytes + sizes_.slice * hidden;  // scaled; the mask
    return tape.add(o);
  };
  const auto normed = [&](NormPlace place, Tensor in) {
    if (!model_.norm_at(place)) return in;
    return modules(norm_module(place), [&] { return p.norm(in, sizes_.slice, hidden, hidden); });
  };
  const Tensor y = normed(NormPlace::kBeforeAttention, x);
  Tensor attended = model_.has_latent_attention() ? latent_attention_tape(p, modules, y)
                                                  : attention_tape(p, modules, y);
  attended = normed(NormPlace::kAfterAttention, attended);
  const Tensor middle = p.sum(x, dropped(attended), bytes);
  tape.end_scope(middle);
  const Tensor z = normed(NormPlace::kBeforeMlp, middle);
  Tensor fed = model_.is_moe_layer(index) ? experts_tape(p, modules, z) : mlp_tape(p, modules, z);
  fed = normed(NormPlace::kAfterMlp, fed);
  const Tensor out = p.sum(middle, dropped(fed), bytes);
  tape.end_scope(out);
  return out;
}

Tensor CallTapes::head(ActivationTape& tape, const ModelUnit& unit, Tensor x) const {
  const TapeParts p{tape, model_, dims_, sizes_, config_.parallelism, unit.adapted};
  const LocalSizes& s = sizes_;
  const int64_t hidden = model_.hidden_size;
  const bool cut = dims_.tp > 1;
  const bool loss_parallel = config_.parallelism.enable_loss_parallel;
  const Tensor y = p.norm(x, s.slice, hidden, hidden);
  const Tensor all = p.gather(y, hidden);
  const int64_t whole = model_.vocab_size;
  const int64_t own = vocabulary_;
  const int64_t chunk = std::min(
      s.tokens,
      loss_chunk_tokens(s.tokens, cut && !loss_parallel ? whole : own, model_.chunk_loss_num, cut));

  const int64_t of_weight = p.is_frozen() ? 0 : p.bytes(own, hidden);  // its gradient
  ActivationTape::Operation loss;
  loss.inputs = {all};
  const bool adapted = unit.adapted.contains(ParamRole::kHead);
  const int64_t rank = model_.lora.lora_rank;
  if (adapted) loss.inputs.push_back(p.low(y, s.slice, hidden, rank, TapeParts::Over::kGathered));
  const int64_t of_adapter = adapted ? p.bytes(s.tokens + own, rank) : 0;  // of low and of B
  loss.bytes = s.wide;
  loss.forward_extra = s.tokens * 16;  // weights of the labels
  if (!cut && chunk >= s.tokens) {
    if (!p.is_frozen()) loss.saved = {all};
    if (adapted) loss.saved.push_back(loss.inputs.back());
    loss.keeps = p.bytes(s.tokens, own);  // the logits, then their gradient
    loss.weight_gradient = of_weight + (adapted ? p.bytes(own, rank) : 0);
  } else {
    loss.makes_gradients = true;
    loss.keeps = p.bytes(s.tokens, hidden) + of_weight + of_adapter;
    loss.weight_gradient = of_weight;
    // Gradients of the weights are summed in the wide type, then rounded.
    const bool widens = s.wide != s.element && !p.is_frozen();
    if (widens) loss.forward_extra += own * hidden * s.wide;
    int64_t logits = p.bytes(chunk, own);
    if (!cut) {
      loss.forward_extra += logits + (widens ? p.bytes(own, hidden) : 0);  // a chunk's share
    } else {
      // Probabilities are made in the logits' place, or beside it in the wide type.
      if (!loss_parallel) {
        logits += p.bytes(chunk, own) + 2 * p.bytes(chunk, whole);
      } else if (model_.final_logit_softcapping) {
        // The capped ones, their squares, and the slope of the cap that those become.
        logits += 3 * chunk * own * s.wide;
      } else if (s.wide != s.element) {
        logits += chunk * own * s.wide;
      }
      const int64_t share = widens ? p.bytes(own, hidden) : 0;  // of a chunk
      loss.forward_extra +=
          std::max(logits, p.bytes(chunk, own) + std::max(share, p.bytes(chunk, hidden)));
    }
  }
  loss.forward = {product_work(chunk, hidden, own, (s.tokens + chunk - 1) / chunk),
                  // Logits are made, read twice for their sum, and become gradients in place.
                  elements_work(4.0 * static_cast<double>(s.tokens * own * s.wide))};
  Work back =
      product_work(chunk, hidden, own, (p.is_frozen() ? 1 : 2) * ((s.tokens + chunk - 1) / chunk));
  if (loss.makes_gradients) {
    loss.forward.push_back(back);
    loss.backward = {elements_work(2.0 * static_cast<double>(p.bytes(s.tokens, hidden)))};
  } else {
    loss.backward = {back};
  }
  if (cut) {
    const int64_t each = loss_parallel ? 3 * s.tokens * s.wide * 2 / dims_.tp * (dims_.tp - 1)
                                       : p.bytes(s.tokens, own) * (dims_.tp - 1);
    loss.forward.push_back(message_work(Axis::kTp, loss_parallel ? "all_reduce" : "all_gather",
                                        dims_.tp, 1, each, 2 * ((s.tokens + chunk - 1) / chunk)));
  }
  const Tensor out = tape.add(loss);
  tape.end_scope(out);
  return out;
}

Tensor CallTapes::prediction(ActivationTape& tape, const ModelUnit& unit, Tensor x) const {
  const TapeParts p{tape, model_, dims_, sizes_, config_.parallelism, unit.adapted};
  const int64_t hidden = model_.hidden_size;
  const int64_t slice = sizes_.slice;
  const Tensor state = p.norm(x, slice, hidden, hidden);
  const Tensor embedded = embedding(tape, unit);
  ActivationTape::Operation join;
  join.inputs = {p.norm(embedded, slice, hidden, hidden), p.norm(state, slice, hidden, hidden)};
  join.bytes = p.bytes(slice, 2 * hidden);
  const Tensor joined = tape.add(join);
  const Tensor projected =
      p.with_adapters(p.linear(joined, slice, 2 * hidden, hidden), joined, 2 * hidden,
                      {{ParamRole::kMtpProjection, hidden}}, slice);
  const Tensor out = layer(tape, unit, projected);
  const Tensor loss = head(tape, unit, p.norm(out, slice, hidden, hidden));
  ActivationTape::Operation pass;  // the state goes on, the loss is an end
  pass.inputs = {x, loss};
  pass.view_of = x;
  pass.passes_gradient = true;
  pass.gradient = p.bytes(slice, hidden);
  return tape.add(pass);
}

Tensor CallTapes::record(ActivationTape& tape, const ModelUnit& unit) const {
  switch (unit.kind) {
    case ModelUnit::Kind::kEmbedding: return embedding(tape, unit);
    case ModelUnit::Kind::kHead: return head(tape, unit, tape.input());
    case ModelUnit::Kind::kLayer: break;
  }
  return unit.layer < model_.num_hidden_layers ? layer(tape, unit, tape.input())
                                               : prediction(tape, unit, tape.input());
}

ActivationTape CallTapes::begin(const ModelUnit& unit) const {
  const int64_t stream = sizes_.slice * model_.hidden_size * sizes_.element;
  return ActivationTape(unit.kind == ModelUnit::Kind::kEmbedding ? 0 : stream);
}

bool CallTapes::runs_again(const ModelUnit& unit) const {
  return unit.kind == ModelUnit::Kind::kLayer && recompute_.whole(unit.layer);
}

CallTapes::Key CallTapes::key_of(const ModelUnit& unit) const {
  if (unit.kind != ModelUnit::Kind::kLayer) return {static_cast<int64_t>(unit.kind)};
  // What is recomputed by parts differs from layer to layer.
  const RecomputeConfig& r = config_.recompute;
  const bool by_parts = r.mode == "select" || r.exclude_op;
  Key key = {static_cast<int64_t>(unit.kind),
             unit.layer < model_.num_hidden_layers ? 0 : 1,
             model_.is_moe_layer(unit.layer) ? 1 : 0,
             model_.window_of(unit.layer),
             runs_again(unit) ? 1 : 0,
             by_parts ? unit.layer : -1};
  for (const ParamRole role : unit.adapted) key.push_back(static_cast<int64_t>(role));
  return key;
}

CallMemory CallTapes::measure(const ModelUnit& unit) const {
  const auto [found, is_new] = measured_.try_emplace(key_of(unit));
  if (is_new) {
    ActivationTape tape = begin(unit);
    const Tensor out = record(tape, unit);
    found->second = tape.measure(out, runs_again(unit));
  }
  return found->second;
}

const CallWork& CallTapes::work(const ModelUnit& unit) const {
  const auto [found, is_new] = works_.try_emplace(key_of(unit));
  if (is_new) {
    ActivationTape tape = begin(unit);
    record(tape, unit);
    found->second = tape.work(runs_again(unit));
  }
  return found->second;
}

}  // namespace tessera
