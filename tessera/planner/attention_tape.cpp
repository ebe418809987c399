// Attention of one layer: T tokens of a micro-batch here, D head size. Under context parallelism a
// rank trades heads for sequence with `inner` neighbours and attends to the keys of `outer` groups.

#include <algorithm>

#include "tessera/config/cpu_features.h"
#include "tessera/layout/context_grid.h"
#include "tessera/layout/size_choices.h"
#include "tessera/planner/tape_parts.h"

namespace tessera {
namespace {

using Tensor = ActivationTape::Tensor;

// Scratch of libtorch's flash kernels on the CPU: scores of a block of queries and keys.
int64_t block_elements(int64_t length) {
  const int64_t queries = length >= 768 ? 256 : length >= 192 ? 64 : 32;
  return std::min(length, queries) * std::min<int64_t>(length, 512);
}

// What the backward of attention in bfloat16 widens to float32 at once, where the processor has no
// bfloat16 units: queries, result and its gradient, keys, values and the three gradients. `q` and
// `kv` are elements of a call's queries and keys, of which a sample's kv head has one of `parts`.
int64_t widened_bytes(const LocalSizes& s, int64_t q, int64_t kv, int64_t parts) {
  if (s.element != 2 || cpu_has_bfloat16()) return 0;
  const int64_t all = 4 * (q + kv) * s.wide;
  return std::min(all, std::max(kWidenedAttentionBytes, all / std::max<int64_t>(1, parts)));
}

struct Heads {
  Tensor tensor;              // q, k and v, in one or as views
  std::vector<Tensor> saved;  // their storages
  int64_t q = 0, kv = 0;      // columns of q; of k or v
};

// One call of the kernel, or several over documents.
Tensor local_core(const TapeParts& p, const Heads& heads) {
  const LocalSizes& s = p.sizes;
  ActivationTape::Operation o;
  o.inputs = {heads.tensor};
  o.bytes = p.bytes(s.tokens, heads.q);
  o.saved = heads.saved;
  o.saves_result = true;
  o.keeps = s.tokens * s.heads * s.wide;  // log of the sum of exponentials
  const int64_t length = s.tokens / s.rows;
  o.forward_extra = block_elements(length) * s.wide;
  o.backward_extra = 2 * block_elements(length) * s.wide;
  const int64_t tokens = length > kLongestSquare ? s.tokens / 2 : s.tokens;
  o.backward_extra += widened_bytes(s, tokens * heads.q, tokens * heads.kv, s.rows * s.kv_heads);
  if (length > kLongestSquare) {  // in pieces: the largest has half of the queries and keys
    o.forward_extra += p.bytes(s.tokens / 2, heads.q);
    o.backward_extra += p.bytes(s.tokens / 2, heads.q + 2 * heads.kv);
    if (s.wide != s.element) {  // put together in the wide type
      o.forward_extra += s.tokens * heads.q * s.wide;
      o.backward_extra += s.tokens * (heads.q + 2 * heads.kv) * s.wide;
    }
  }
  if (s.packed) {  // what a document's call returns is put in its place
    o.forward_extra += p.bytes(length, heads.q);
    o.backward_extra += p.bytes(length, heads.q + 2 * heads.kv);
  }
  return p.tape.add(o);
}

// q, k and v [R, inner L, heads here, D] and what moves between the groups of the grid.
Tensor context_core(const TapeParts& p, const Heads& heads, const ParallelismConfig& parallelism) {
  const LocalSizes& s = p.sizes;
  const ContextGrid grid = context_grid(parallelism);
  const int64_t copies = std::max<int64_t>(1, grid.inner / s.kv_heads);
  const int64_t q = s.tokens * heads.q;
  const int64_t kv = s.tokens * heads.kv * copies;  // elements of k or v
  const int64_t length = s.tokens * grid.inner / s.rows;

  ActivationTape::Operation o;
  o.inputs = {heads.tensor};
  o.bytes = q * s.element;
  o.keeps = s.tokens * s.heads * s.wide;
  if (grid.inner > 1) {
    // Traded: q, k, v in another order, and the result before it goes back.
    o.keeps += (2 * q + 2 * kv) * s.element;
    o.forward_extra += (q + 2 * kv) * s.element;  // as they arrived
    o.backward_extra += 2 * q * s.element;        // the gradient of the result on its way
  } else {
    o.saved = heads.saved;
    o.saves_result = true;
  }
  if (s.wide != s.element) o.forward_extra += q * s.wide;
  const int64_t result = p.bytes(length, heads.q / grid.inner);  // of a block
  o.forward_extra += result + block_elements(length) * s.wide;
  o.backward_extra += 2 * block_elements(length) * s.wide;
  o.backward_extra += result + 2 * kv / s.rows * s.element;  // gradients of a block
  o.backward_extra +=
      widened_bytes(s, length * heads.q / grid.inner, kv / s.rows, s.kv_heads * copies);
  if (grid.inner > 1 || s.wide != s.element) o.backward_extra += (q + 2 * kv) * s.wide;
  if (grid.outer == 1) return p.tape.add(o);

  const int64_t all = 2 * kv * grid.outer;
  // Views of k and v are copied to be sent.
  o.forward_extra += 2 * kv * s.element;
  o.backward_extra += 2 * kv * s.element;
  if (!travels_in_ring(key_exchange(parallelism), grid.outer, kv * s.element)) {
    o.forward_extra += all * s.element;
    o.backward_extra += all * (s.element + s.wide);
  } else {
    // Keys and values of this hop and the next; their gradients on the way there and from others.
    o.forward_extra += 4 * kv * s.element;
    o.backward_extra += 4 * kv * s.element + 8 * kv * s.wide;
  }
  return p.tape.add(o);
}

Tensor core(const TapeParts& p, TapeModules& modules, const ParallelismConfig& parallelism,
            const Heads& heads) {
  return modules(LayerModule::kCore, [&] {
    return p.dims.cp == 1 ? local_core(p, heads) : context_core(p, heads, parallelism);
  });
}

// Norms of q and k, rotation: in place where there are no norms.
Heads split_heads(const TapeParts& p, TapeModules& modules, bool in_turn, Tensor qkv) {
  const LocalSizes& s = p.sizes;
  const int64_t head_dim = p.model.head_dim;
  Heads heads;
  heads.q = s.heads * head_dim;
  heads.kv = s.kv_heads * head_dim;
  const int64_t all = p.bytes(s.tokens, heads.q + 2 * heads.kv);
  const int64_t normed = p.bytes(s.tokens, heads.q + heads.kv);
  constexpr LayerModule q_norm = LayerModule::kQueryNorm, k_norm = LayerModule::kKeyNorm;
  const bool norms = p.model.norm_at(NormPlace::kQuery) != nullptr;
  ActivationTape::Operation o;
  o.inputs = {qkv};
  o.gradient = all;
  if (in_turn || (norms && (modules.selects(q_norm) || modules.selects(k_norm)))) {
    if (norms) {
      qkv = modules(q_norm, [&] {
        ActivationTape::Operation norm;
        norm.inputs = {qkv};
        norm.bytes = normed;
        norm.gradient = all;
        norm.saved = {qkv};
        norm.keeps = s.tokens * (s.heads + s.kv_heads) * s.wide;
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
    o.keeps = s.tokens * (s.heads + s.kv_heads) * s.wide;
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

Tensor attention_tape(const TapeParts& p, TapeModules& modules,
                      const ParallelismConfig& parallelism, Tensor y) {
  const int64_t hidden = p.model.hidden_size;
  const int64_t q = p.sizes.heads * p.model.head_dim;
  const int64_t kv = p.sizes.kv_heads * p.model.head_dim;
  return modules(LayerModule::kAttention, [&] {
    const Tensor qkv = modules(LayerModule::kQkv, [&] { return p.column(y, hidden, q + 2 * kv); });
    const Heads heads = split_heads(p, modules, trades_in_turn(parallelism), qkv);
    const Tensor out = core(p, modules, parallelism, heads);
    return modules(LayerModule::kOutput, [&] { return p.row(out, q, hidden); });
  });
}

Tensor latent_attention_tape(const TapeParts& p, TapeModules& modules,
                             const ParallelismConfig& parallelism, Tensor y) {
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
    const Tensor latent = modules(LayerModule::kLatentDown,
                                  [&] { return p.linear(y, s.slice, hidden, latent_columns); });
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
    const auto up = [&](int64_t in, int64_t out) {
      ActivationTape::Operation o;
      o.inputs = {all};
      o.bytes = per_head(out);
      o.saved = {all};
      o.backward_extra = p.bytes(s.tokens, in);
      o.weight_gradient = p.bytes(in, s.heads * out);
      return p.tape.add(o);
    };
    const Tensor q = modules(LayerModule::kQueryUp, [&] { return up(source, query_dim); });
    ActivationTape::Operation rotate;
    rotate.inputs = {q};
    rotate.bytes = per_head(query_dim);
    rotate.forward_extra = 2 * per_head(m.qk_rope_head_dim);
    rotate.backward_extra = per_head(query_dim) + per_head(m.qk_rope_head_dim);  // halves, widened
    const Tensor query = p.tape.add(rotate);
    const Tensor kv = modules(LayerModule::kKeyValueUp, [&] { return up(kv_rank, kv_dim); });
    ActivationTape::Operation expand;
    expand.inputs = {kv};
    expand.bytes = per_head(query_dim);
    expand.backward_extra = per_head(kv_dim);
    const Tensor key = p.tape.add(expand);

    // The kernel takes one head size: the smaller is padded with zeros.
    const int64_t size = std::max(query_dim, m.v_head_dim);
    Tensor value = kv;
    if (m.v_head_dim < size) {
      ActivationTape::Operation pad;
      pad.inputs = {kv};
      pad.bytes = per_head(size);
      pad.backward_extra = per_head(m.v_head_dim);
      value = p.tape.add(pad);
    }
    // The three as one: their gradients are those of q, k and v.
    ActivationTape::Operation offer;
    offer.inputs = {query, key, value};
    offer.view_of = query;
    offer.gradient = 3 * per_head(size);
    offer.passes_gradient = true;
    Heads heads;
    heads.tensor = p.tape.add(offer);
    heads.saved = {query, key, value};
    heads.q = heads.kv = s.heads * size;
    const Tensor attended = core(p, modules, parallelism, heads);
    Tensor out = attended;
    if (m.v_head_dim < size) {
      ActivationTape::Operation narrow;
      narrow.inputs = {attended};
      narrow.bytes = per_head(m.v_head_dim);
      out = p.tape.add(narrow);
    }
    return modules(LayerModule::kOutput,
                   [&] { return p.row(out, s.heads * m.v_head_dim, hidden); });
  });
}

}  // namespace tessera
