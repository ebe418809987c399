// Context parallelism: heads are traded for sequence inside a group of the grid, keys and values
// and their gradients travel between groups.

#include <algorithm>
#include <vector>

#include "tessera/data/token_split.h"
#include "tessera/layout/context_grid.h"
#include "tessera/planner/traffic/activation_traffic.h"

namespace tessera {
namespace {

// Whether a query at `queries` sees a key at `keys` (pieces of a sample); window 0: none.
bool see(const Pieces& queries, const Pieces& keys, int64_t window) {
  for (const Range& q : queries) {
    for (const Range& k : keys) {
      if (k.begin < q.end && (window == 0 || k.end - 1 > q.begin - window)) return true;
    }
  }
  return false;
}

// Groups of the grid whose keys the queries of a group see, and whose queries see its keys, itself
// left out. Of samples that are one document.
struct Peers {
  int64_t sees = 0;
  int64_t seen_by = 0;

  Peers(const Config& config, int64_t groups, int64_t group, int64_t window) {
    const int64_t length = config.model.seq_length;
    const auto pieces =
        split_row(length, std::vector<int64_t>{length}, groups, token_balance(config));
    const Pieces& own = pieces[static_cast<size_t>(group)];
    for (const Pieces& peer : pieces) {
      if (&peer == &own) continue;
      sees += see(own, peer, window) ? 1 : 0;
      seen_by += see(peer, own, window) ? 1 : 0;
    }
  }
};

}  // namespace

void add_context_traffic(const Config& config, const ParallelDims& dims, const BatchPlan& batch,
                         const RecomputePlan& recompute, int64_t layer, int64_t rank,
                         TrafficCounter& counter) {
  const ModelConfig& m = config.model;
  const ContextGrid grid = context_grid(config.parallelism);
  const int64_t times = forwards(recompute, layer, {LayerModule::kAttention, LayerModule::kCore});
  const int64_t tokens = batch.local_batch * m.seq_length / dims.cp;
  const int64_t heads = m.num_attention_heads / dims.tp;
  const int64_t kv_heads = std::max<int64_t>(1, m.core_kv_heads() / dims.tp);
  const int64_t query_dim = m.query_dim();
  const int64_t value_dim = m.value_dim();
  const int64_t copied = std::max(kv_heads, grid.inner);  // fewer heads than neighbours
  const int64_t element = size_of(m.compute_dtype);
  const int64_t wide = m.compute_dtype == DType::kFloat64 ? 8 : 4;

  if (grid.inner > 1) {
    const auto trade = [&](int64_t columns, int64_t count) {
      counter.add("all_to_all", count, tokens * columns / grid.inner * (grid.inner - 1) * element);
    };
    trade(heads * query_dim, times + 1);   // q
    trade(copied * query_dim, times + 1);  // k
    trade(copied * value_dim, times + 1);  // v
    trade(heads * value_dim, times + 1);   // the result
  }
  if (grid.outer > 1) {
    const int64_t sent = tokens * (grid.inner > 1 ? copied : kv_heads);
    const int64_t key = sent * query_dim, value = sent * value_dim;
    const int64_t both = key + value;
    if (!travels_in_ring(key_exchange(config.parallelism), grid.outer, key * element)) {
      counter.add("all_gather", times + 1, (grid.outer - 1) * both * element);
      counter.add("reduce_scatter", 1, (grid.outer - 1) * both * wide);
    } else {
      const int64_t group = dims.index_on(Axis::kCp, rank) / grid.inner;
      const Peers peers(config, grid.outer, group, m.window_of(layer));
      for (const int64_t one : {key, value}) {
        counter.add("send", peers.seen_by * (times + 1), one * element);
        counter.add("send", peers.sees, one * wide);
      }
    }
  }
  // How many tokens each expert has, over those who hold pieces of the same samples.
  if (m.is_moe_layer(layer) && m.moe_aux_loss_coeff > 0 &&
      m.moe_router_load_balancing_type != "global_aux_loss") {
    const bool by_sequence = m.moe_router_load_balancing_type != "aux_loss";
    const int64_t bytes = (by_sequence ? batch.local_batch : 1) * m.n_routed_experts * 8;
    counter.add("all_reduce", forwards(recompute, layer, {LayerModule::kMlp, LayerModule::kRouter}),
                2 * (dims.cp - 1) * bytes / dims.cp);
  }
}

}  // namespace tessera
