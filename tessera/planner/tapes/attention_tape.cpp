// Attention of one layer: T tokens of a micro-batch here, D head size. Under context parallelism a
// rank trades heads for sequence with `inner` neighbours and attends to the keys of `outer` groups.

#include <algorithm>

#include "tessera/layout/context_grid.h"
#include "tessera/planner/tapes/tape_parts.h"

namespace tessera {
namespace {

using Tensor = ActivationTape::Tensor;

struct Heads {
  Tensor tensor;                // q, k and v, in one or as views
  std::vector<Tensor> saved;    // their storages
  int64_t q = 0, k = 0, v = 0;  // columns
  int64_t out = 0;              // of the result
};

// The query-key pairs of the rank, twice for a multiplication and an addition.
void add_core_work(const TapeParts& p, int64_t layer, ActivationTape::Operation& o) {
  const double pairs =
      2.0 * p.sizes.pairs_under(p.model.window_of(layer)) * static_cast<double>(p.sizes.heads);
  const auto query = static_cast<double>(p.model.query_dim());
  const auto value = static_cast<double>(p.model.value_dim());
  Work work;
  work.kind = WorkKind::kAttention;
  work.flops = pairs * (query + value);
  o.forward.push_back(work);
  work.kind = WorkKind::kAttentionBack;  // scores again; gradients of v, of the scores, of q and k
  work.flops = pairs * (3 * query + 2 * value);
  o.backward.push_back(work);
}

// One call of the kernel, whose work space is not taken as tensors.
Tensor local_core(const TapeParts& p, int64_t layer, const Heads& heads) {
  const LocalSizes& s = p.sizes;
  ActivationTape::Operation o;
  o.inputs = {heads.tensor};
  o.bytes = p.bytes(s.tokens, heads.out);
  o.saved = heads.saved;
  o.saves_result = true;
  o.keeps = s.tokens * s.heads * s.wide;  // log of the sum of exponentials
  if (s.packed) o.keeps += s.tokens * 8;  // begins of documents
  // Gradients are summed in the wide type.
  if (s.wide != s.element) o.backward_extra = s.tokens * (heads.q + heads.k + heads.v) * s.wide;
  add_core_work(p, layer, o);
  return p.tape.add(o);
}

// q, k and v [R, inner L, heads here, D] and what moves between the groups of the grid.
Tensor context_core(const TapeParts& p, int64_t layer, const Heads& heads) {
  const LocalSizes& s = p.sizes;
  const ContextGrid grid = context_grid(p.parallelism);
  const int64_t copies = std::max<int64_t>(1, grid.inner / s.kv_heads);
  const int64_t q = s.tokens * heads.q, out = s.tokens * heads.out;
  const int64_t kv = s.tokens * (heads.k + heads.v) * copies;  // elements of k and v

  ActivationTape::Operation o;
  o.inputs = {heads.tensor};
  o.bytes = out * s.element;
  o.keeps = s.tokens * s.heads * s.wide;
  if (grid.inner > 1) {
    // Traded: q, k, v in another order, and the result before it goes back.
    o.keeps += (q + kv + out) * s.element;
    Work trade = message_work(Axis::kCp, "all_to_all", grid.inner, p.dims.tp,
                              (q + kv + out) / grid.inner * (grid.inner - 1) * s.element, 4);
    trade.hidden = p.parallelism.context_parallel_async;
    o.forward.push_back(trade);
    o.backward.push_back(trade);
    o.forward_extra += (q + kv) * s.element;  // as they arrived
    o.backward_extra += 2 * out * s.element;  // the gradient of the result on its way
  } else {
    o.saved = heads.saved;
    o.saves_result = true;
  }
  if (s.wide != s.element) o.forward_extra += out * s.wide;
  if (grid.inner > 1 || s.wide != s.element) o.backward_extra += (q + kv) * s.wide;
  add_core_work(p, layer, o);
  if (grid.outer == 1) return p.tape.add(o);

  const int64_t all = kv * grid.outer;
  const int64_t k_bytes = s.tokens * heads.k * copies * s.element;
  // Views of k and v are copied to be sent.
  o.forward_extra += kv * s.element;
  o.backward_extra += kv * s.element;
  const int64_t stride = p.dims.tp * grid.inner;
  const auto message = [&](std::string_view operation, int64_t element) {
    return message_work(Axis::kCp, operation, grid.outer, stride, kv * (grid.outer - 1) * element);
  };
  if (!travels_in_ring(key_exchange(p.parallelism), grid.outer, k_bytes)) {
    o.forward.push_back(message("all_gather", s.element));
    o.backward.push_back(message("all_gather", s.element));
    o.backward.push_back(message("reduce_scatter", s.wide));
    o.forward_extra += all * s.element;
    o.backward_extra += all * (s.element + s.wide);
  } else {
    Work hops = message("send", s.element);
    hops.calls = 2 * (grid.outer - 1);
    hops.hidden = true;
    o.forward.push_back(hops);
    hops.bytes += static_cast<double>(kv * (grid.outer - 1) * s.wide);
    hops.calls *= 2;
    o.backward.push_back(hops);
    // Keys and values of this hop and the next; their gradients on the way there and from others.
    o.forward_extra += 2 * kv * s.element;
    o.backward_extra += 2 * kv * s.element + 4 * kv * s.wide;
  }
  return p.tape.add(o);
}

Tensor core(const TapeParts& p, TapeModules& modules, const Heads& heads) {
  return modules(LayerModule::kCore, [&] {
    return p.dims.cp == 1 ? local_core(p, modules.layer(), heads)
                          : context_core(p, modules.layer(), heads);
  });
}

// What the norms of q and of k keep for their backward beside their input.
int64_t kept_by_norms(const TapeParts& p, int64_t normed) {
  const LocalSizes& s = p.sizes;
  if (p.model.design().qk_norm_span == QkNormSpan::kHead) {
    return s.tokens * (s.heads + s.kv_heads) * s.wide;
  }
  // One scale a token; over several ranks also q and k in the wide type, and these in front of the
  // product with the weight.
  const int64_t scales = 2 * s.tokens * s.wide;
  const int64_t copies = s.wide == s.element ? 1 : 2;
  return p.dims.tp == 1 ? scales : scales + copies * normed / s.element * s.wide;
}

// Norms of q and k, rotation: in place where there are no norms and a pair are two halves.
Heads split_heads(const TapeParts& p, TapeModules& modules, bool in_turn, Tensor qkv) {
  const LocalSizes& s = p.sizes;
  const int64_t head_dim = p.model.head_dim;
  Heads heads;
  heads.q = s.heads * head_dim;
  heads.k = heads.v = s.kv_heads * head_dim;
  heads.out = heads.q;
  const int64_t all = p.bytes(s.tokens, heads.q + heads.k + heads.v);
  const int64_t normed = p.bytes(s.tokens, heads.q + heads.k);
  constexpr LayerModule q_norm = LayerModule::kQueryNorm, k_norm = LayerModule::kKeyNorm;
  const bool norms = p.model.norm_at(NormPlace::kQuery) != nullptr;
  ActivationTape::Operation o;
  o.inputs = {qkv};
  o.gradient = all;
  const bool by_parts = in_turn || p.model.design().rotary_pairs_neighbours;
  if (by_parts || (norms && (modules.selects(q_norm) || modules.selects(k_norm)))) {
    if (norms) {
      qkv = modules(q_norm, [&] {
        ActivationTape::Operation norm;
        norm.inputs = {qkv};
        norm.bytes = normed;
        norm.gradient = all;
        norm.saved = {qkv};
        norm.keeps = kept_by_norms(p, normed);
        return p.tape.add(norm);
      });
      heads.saved.push_back(o.inputs[0]);  // v
      o.inputs = {qkv};
    } else {
      heads.saved.push_back(qkv);
    }
    o.bytes = normed;
  } else if (norms) {
    o.bytes = normed;
    o.saved = {qkv};
    o.keeps = kept_by_norms(p, normed);
    o.backward_extra = p.bytes(s.tokens, heads.q);
    heads.saved.push_back(qkv);
  } else {
    o.view_of = qkv;
  }
  heads.tensor = p.tape.add(o);
  heads.saved.push_back(heads.tensor);
  return heads;
}

}  // namespace

Tensor attention_tape(const TapeParts& p, TapeModules& modules, Tensor y) {
  const int64_t hidden = p.model.hidden_size;
  const int64_t q = p.sizes.heads * p.model.head_dim;
  const int64_t kv = p.sizes.kv_heads * p.model.head_dim;
  return modules(LayerModule::kAttention, [&] {
    const Tensor qkv = modules(LayerModule::kQkv, [&] {
      return p.with_adapters(
          p.column(y, hidden, q + 2 * kv), y, hidden,
          {{ParamRole::kAttnQ, q}, {ParamRole::kAttnK, kv}, {ParamRole::kAttnV, kv}},
          p.sizes.tokens, TapeParts::Over::kGathered);
    });
    const Heads heads = split_heads(p, modules, trades_in_turn(p.parallelism), qkv);
    const Tensor out = core(p, modules, heads);
    return modules(LayerModule::kOutput, [&] {
      return p.with_adapters(p.row(out, q, hidden), out, q, {{ParamRole::kAttnO, hidden}},
                             p.sizes.slice, TapeParts::Over::kScattered);
    });
  });
}

Tensor latent_attention_tape(const TapeParts& p, TapeModules& modules, Tensor y) {
  const LocalSizes& s = p.sizes;
  const ModelConfig& m = p.model;
  const int64_t hidden = m.hidden_size;
  const int64_t query_dim = m.query_dim();
  const int64_t kv_dim = m.qk_nope_head_dim + m.v_head_dim;
  const int64_t q_rank = m.q_lora_rank.value_or(0);
  const int64_t kv_rank = m.kv_lora_rank;
  const int64_t latent_columns = q_rank + kv_rank + m.qk_rope_head_dim;
  const int64_t source = q_rank > 0 ? q_rank : hidden;
  const int64_t gathered_columns = source + kv_rank + m.qk_rope_head_dim;
  const auto per_head = [&](int64_t columns) { return p.bytes(s.tokens, s.heads * columns); };

  return modules(LayerModule::kAttention, [&] {
    const Tensor latent = modules(LayerModule::kLatentDown, [&] {
      return p.with_adapters(
          p.linear(y, s.slice, hidden, latent_columns), y, hidden,
          {{ParamRole::kMlaQA, q_rank}, {ParamRole::kMlaKvA, latent_columns - q_rank}}, s.slice);
    });
    // Norms of the parts, then side by side.
    Tensor normed = latent;
    if (m.norm_at(NormPlace::kKey)) {
      ActivationTape::Operation o;
      o.inputs = {latent};
      o.bytes = p.bytes(s.slice, q_rank + kv_rank);
      o.gradient = p.bytes(s.slice, latent_columns);
      o.saved = {latent};
      o.keeps = s.slice * (q_rank > 0 ? 2 : 1) * s.wide;
      normed = p.tape.add(o);
    }
    ActivationTape::Operation join;
    join.inputs = q_rank > 0 ? std::vector<Tensor>{normed} : std::vector<Tensor>{y, normed};
    join.bytes = p.bytes(s.slice, gathered_columns);
    const Tensor joined = p.tape.add(join);
    const Tensor all = p.gather(joined, gathered_columns);

    // A product over some of the columns: their gradient is widened to all.
    const auto up = [&](int64_t in, int64_t out, ParamRole role) {
      ActivationTape::Operation o;
      o.inputs = {all};
      o.bytes = per_head(out);
      o.backward_extra = p.bytes(s.tokens, in);
      if (!p.is_frozen()) {
        o.saved = {all};
        o.weight_gradient = p.bytes(in, s.heads * out);
      }
      o.forward = {product_work(s.tokens, in, s.heads * out)};
      o.backward = {product_work(s.tokens, in, s.heads * out, p.is_frozen() ? 1 : 2)};
      return p.with_adapters(p.tape.add(o), all, in, {{role, s.heads * out}}, s.tokens);
    };
    const Tensor q =
        modules(LayerModule::kQueryUp, [&] { return up(source, query_dim, ParamRole::kMlaQB); });
    ActivationTape::Operation rotate;
    rotate.inputs = {q};
    rotate.bytes = per_head(query_dim);
    rotate.forward_extra = 2 * per_head(m.qk_rope_head_dim);
    rotate.backward_extra = per_head(query_dim) + per_head(m.qk_rope_head_dim);  // halves, widened
    const Tensor query = p.tape.add(rotate);
    const Tensor kv =
        modules(LayerModule::kKeyValueUp, [&] { return up(kv_rank, kv_dim, ParamRole::kMlaKvB); });
    ActivationTape::Operation expand;
    expand.inputs = {kv};
    expand.bytes = per_head(query_dim);
    expand.backward_extra = per_head(kv_dim);
    const Tensor key = p.tape.add(expand);

    // The three as one: their gradients are those of q, k and v.
    ActivationTape::Operation offer;
    offer.inputs = {query, key, kv};  // values are a view
    offer.view_of = query;
    offer.gradient = 2 * per_head(query_dim) + per_head(m.v_head_dim);
    offer.passes_gradient = true;
    Heads heads;
    heads.tensor = p.tape.add(offer);
    heads.saved = {query, key, kv};
    heads.q = heads.k = s.heads * query_dim;
    heads.v = heads.out = s.heads * m.v_head_dim;
    const Tensor out = core(p, modules, heads);
    return modules(LayerModule::kOutput, [&] {
      const int64_t in = s.heads * m.v_head_dim;
      return p.with_adapters(p.row(out, in, hidden), out, in, {{ParamRole::kAttnO, hidden}},
                             s.slice, TapeParts::Over::kScattered);
    });
  });
}

}  // namespace tessera
