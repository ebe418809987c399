#include "tessera/parallel/experts/expert_parallel_dispatchers.h"

#include <ATen/ATen.h>

#include <numeric>

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/regions.h"
#include "tessera/nn/experts/expert_rows.h"

// T tokens here, H hidden, k choices; P (token, node) pairs that arrived from all nodes.

namespace tessera {
namespace {

at::Tensor int64_tensor(const std::vector<int64_t>& values) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.mutable_data_ptr<int64_t>());
  return tensor;
}

std::vector<int64_t> exchange_counts(const std::vector<int64_t>& counts,
                                     const ProcessGroup& group) {
  const auto size = static_cast<size_t>(group.size());
  TESSERA_CHECK(counts.size() % size == 0, counts.size(), " counts over ", size);
  const at::Tensor in = int64_tensor(counts);
  at::Tensor out = at::empty_like(in);
  const std::vector<int64_t> splits(size, static_cast<int64_t>(counts.size() / size));
  group.all_to_all(out, in, splits, splits).wait();
  const int64_t* first = out.const_data_ptr<int64_t>();
  return {first, first + out.numel()};
}

}  // namespace

ExpertExchange::ExpertExchange(const std::vector<int64_t>& counts, const ProcessGroup& group)
    : group_(group) {
  const auto members = static_cast<size_t>(group.size());
  const size_t experts = counts.size() / members;                        // here
  const std::vector<int64_t> arriving = exchange_counts(counts, group);  // [member][expert]
  rows_of_expert_.assign(experts, 0);
  for (size_t m = 0; m < members; ++m) {
    const auto sum = [&](const std::vector<int64_t>& of) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(m * experts);
      return std::accumulate(first, first + static_cast<std::ptrdiff_t>(experts), int64_t{0});
    };
    sent_.push_back(sum(counts));
    received_.push_back(sum(arriving));
    for (size_t e = 0; e < experts; ++e) rows_of_expert_[e] += arriving[m * experts + e];
  }
  if (members == 1 || experts == 1) return;
  std::vector<int64_t> first(members * experts);  // row where a block (member, expert) arrives
  std::exclusive_scan(arriving.begin(), arriving.end(), first.begin(), int64_t{0});
  const int64_t rows = std::accumulate(received_.begin(), received_.end(), int64_t{0});
  source_ = at::empty({rows}, at::kLong);
  places_ = at::empty({rows, 1}, at::kLong);
  int64_t* source = source_.mutable_data_ptr<int64_t>();
  int64_t* places = places_.mutable_data_ptr<int64_t>();
  int64_t row = 0;
  for (size_t e = 0; e < experts; ++e) {
    for (size_t m = 0; m < members; ++m) {
      const size_t block = m * experts + e;
      for (int64_t i = 0; i < arriving[block]; ++i, ++row) {
        source[row] = first[block] + i;
        places[first[block] + i] = row;
      }
    }
  }
}

at::Tensor ExpertExchange::to_experts(const at::Tensor& rows) const {
  const at::Tensor arrived = all_to_all(rows, received_, sent_, group_);
  if (!source_.defined()) return arrived;
  return spread_rows(arrived, source_.to(rows.device()), places_.to(rows.device()));
}

at::Tensor ExpertExchange::from_experts(const at::Tensor& rows) const {
  at::Tensor back = rows;
  if (source_.defined()) {
    back = spread_rows(rows, places_.flatten().to(rows.device()),
                       source_.unsqueeze(1).to(rows.device()));
  }
  return all_to_all(back, sent_, received_, group_);
}

namespace {

struct AllToAllCall : DispatchCall {
  std::optional<ExpertExchange> exchange;
  at::Tensor places;
  at::Tensor combine(const at::Tensor& rows_RH, const at::Tensor& own_weights) override {
    return combine_rows(exchange->from_experts(rows_RH), places, own_weights);
  }
};

struct NodeCall : DispatchCall {
  std::optional<ExpertExchange> exchange;  // in the node
  ProcessGroup between;
  std::vector<int64_t> sent, received;  // tokens by node
  at::Tensor places_in_node;            // [P, k]
  at::Tensor places_at_home;            // [T, nodes]
  at::Tensor combine(const at::Tensor& rows_RH, const at::Tensor& node_weights) override {
    const at::Tensor sums =
        combine_rows(exchange->from_experts(rows_RH), places_in_node, node_weights);
    return combine_rows(all_to_all(sums, sent, received, between), places_at_home, {});
  }
};

// Which tokens go to which node: by node, then token.
struct Crossing {
  std::vector<int64_t> tokens;  // sent, one after the other
  std::vector<int64_t> tokens_of_node;
  at::Tensor places;  // [T, nodes]: where among the sent; -1: not
};

Crossing tokens_by_node(const at::Tensor& expert_ids, int64_t nodes, int64_t experts_of_node,
                        bool selective) {
  const at::Tensor ids = expert_ids.cpu().contiguous();
  const int64_t* id = ids.const_data_ptr<int64_t>();
  const int64_t tokens = ids.size(0);
  const int64_t k = ids.size(1);
  Crossing crossing;
  crossing.places = at::full({tokens, nodes}, -1, at::kLong);
  int64_t* places = crossing.places.mutable_data_ptr<int64_t>();
  for (int64_t node = 0; node < nodes; ++node) {
    const auto before = static_cast<int64_t>(crossing.tokens.size());
    for (int64_t t = 0; t < tokens; ++t) {
      bool needed = !selective;
      for (int64_t j = 0; j < k && !needed; ++j) needed = id[t * k + j] / experts_of_node == node;
      if (!needed) continue;
      places[t * nodes + node] = static_cast<int64_t>(crossing.tokens.size());
      crossing.tokens.push_back(t);
    }
    crossing.tokens_of_node.push_back(static_cast<int64_t>(crossing.tokens.size()) - before);
  }
  return crossing;
}

// Of one node nothing crosses. All ranks of the ep group decide alike, from what the first use
// would send.
bool moves_less(const Crossing& selective, int64_t tokens, const NodeGroups& groups) {
  if (groups.between.size() == 1) return false;
  const auto here = static_cast<size_t>(groups.between.rank());
  int64_t crossing = 0;
  for (size_t node = 0; node < selective.tokens_of_node.size(); ++node) {
    if (node != here) crossing += selective.tokens_of_node[node];
  }
  at::Tensor sums = int64_tensor({crossing, tokens * (groups.between.size() - 1)});
  groups.all.all_reduce({sums}).wait();
  const int64_t needed = sums[0].item<int64_t>();
  const int64_t everywhere = sums[1].item<int64_t>();
  if (groups.say) {
    log_info(detail::concat("alltoall_deredundancy: ", needed, " of ", everywhere,
                            " (token, other node) pairs are needed: ",
                            needed < everywhere ? "only those are sent" : "every node gets all"));
  }
  return needed < everywhere;
}

}  // namespace

std::unique_ptr<DispatchCall> AllToAllDispatcher::dispatch(const at::Tensor& x_TH,
                                                           const at::Tensor& expert_ids,
                                                           const at::Tensor& weights,
                                                           int64_t experts) {
  const ExpertOrder order = order_by_expert(expert_ids, {0, experts});
  auto call = std::make_unique<AllToAllCall>();
  call->exchange.emplace(order.counts, group);
  call->rows = call->exchange->to_experts(spread_rows(x_TH, order.source, order.places));
  call->weights = weights;
  call->rows_of_expert = call->exchange->rows_of_expert();
  call->places = order.places;
  return call;
}

std::unique_ptr<DispatchCall> NodeDispatcher::dispatch(const at::Tensor& x_TH,
                                                       const at::Tensor& expert_ids,
                                                       const at::Tensor& weights, int64_t experts) {
  const ProcessGroup& between = groups->between;
  const int64_t nodes = between.size();
  const int64_t experts_of_node = experts / nodes;
  std::optional<bool>& selective = groups->selective;
  Crossing crossing = tokens_by_node(expert_ids, nodes, experts_of_node, selective.value_or(true));
  if (!selective) {
    selective = moves_less(crossing, x_TH.size(0), *groups);
    if (!*selective) crossing = tokens_by_node(expert_ids, nodes, experts_of_node, false);
  }

  // Between the nodes: tokens, their choices, and the weights of these.
  auto call = std::make_unique<NodeCall>();
  call->between = between;
  call->sent = crossing.tokens_of_node;
  call->received = exchange_counts(call->sent, between);
  call->places_at_home = crossing.places.to(x_TH.device());
  const at::Tensor tokens = int64_tensor(crossing.tokens).to(x_TH.device());
  const auto cross = [&](const at::Tensor& own) {
    return all_to_all(own, call->received, call->sent, between);
  };
  const at::Tensor ids_Pk = cross(expert_ids.index_select(0, tokens));
  if (weights.defined()) call->weights = cross(spread_rows(weights, tokens, call->places_at_home));
  const at::Tensor x_PH = cross(spread_rows(x_TH, tokens, call->places_at_home));

  // Inside the node: one row per choice that falls into it.
  const int64_t first = between.rank() * experts_of_node;
  const ExpertOrder order = order_by_expert(ids_Pk, {first, first + experts_of_node});
  call->places_in_node = order.places;
  call->exchange.emplace(order.counts, groups->node);
  call->rows = call->exchange->to_experts(spread_rows(x_PH, order.source, order.places));
  call->rows_of_expert = call->exchange->rows_of_expert();
  return call;
}

}  // namespace tessera
