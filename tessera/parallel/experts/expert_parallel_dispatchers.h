#pragma once

// Ways of tokens to experts that are cut over the ranks of a group: member r of n holds experts
// [r X / n, (r + 1) X / n).

#include <memory>
#include <optional>
#include <vector>

#include "tessera/comm/process_group.h"
#include "tessera/nn/experts/token_dispatcher.h"

namespace tessera {

/// Rows that lie by expert, to the members that hold the experts and back.
class ExpertExchange {
 public:
  /// `counts`: rows of this member for each expert of the group. Collective: counts travel first.
  ExpertExchange(const std::vector<int64_t>& counts, const ProcessGroup& group);

  /// [own rows, H] -> [rows of the experts here, H], by expert, then by member.
  at::Tensor to_experts(const at::Tensor& rows) const;
  /// The way back.
  at::Tensor from_experts(const at::Tensor& rows) const;

  const std::vector<int64_t>& rows_of_expert() const {  // of the experts here
    return rows_of_expert_;
  }

 private:
  ProcessGroup group_;
  std::vector<int64_t> sent_, received_;  // rows by member
  std::vector<int64_t> rows_of_expert_;
  at::Tensor source_, places_;  // by member -> by expert; undefined: the same
};

/// One all-to-all there, one back.
struct AllToAllDispatcher : TokenDispatcher {
  explicit AllToAllDispatcher(ProcessGroup group) : group(std::move(group)) {}
  std::unique_ptr<DispatchCall> dispatch(const at::Tensor& x_TH, const at::Tensor& expert_ids,
                                         const at::Tensor& weights, int64_t experts) override;
  ProcessGroup group;
};

/// An ep group seen as nodes of neighbours; what the layers of a decoder share.
struct NodeGroups {
  ProcessGroup node;     // the members of this node
  ProcessGroup between;  // those with the same place in all nodes
  ProcessGroup all;
  bool say = false;  // this rank says which way was chosen
  /// Only nodes that need a token get it; undecided before the first use.
  std::optional<bool> selective;
};

/// Two stages: between equal places of the nodes, then inside the node. A token crosses to a node
/// at most once however many of its experts live there, and comes back as one sum. It goes to the
/// nodes that need it, or to all, whichever moved less in the first use; which one is said once.
struct NodeDispatcher : TokenDispatcher {
  explicit NodeDispatcher(std::shared_ptr<NodeGroups> groups) : groups(std::move(groups)) {}
  std::unique_ptr<DispatchCall> dispatch(const at::Tensor& x_TH, const at::Tensor& expert_ids,
                                         const at::Tensor& weights, int64_t experts) override;
  std::shared_ptr<NodeGroups> groups;
};

}  // namespace tessera
