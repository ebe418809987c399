// The local transport as a ProcessGroup: every call is published to the LocalGroup.

#include <exception>

#include "tessera/base/error.h"
#include "tessera/comm/single_group.h"
#include "tessera/comm/threads/local_group.h"

namespace tessera {
namespace {

class CollectiveWork : public Work::Impl {
 public:
  CollectiveWork(std::shared_ptr<LocalGroup> group, std::shared_ptr<LocalOp> op, int member,
                 const std::string& name)
      : group_(std::move(group)), op_(std::move(op)), member_(member), name_(name) {}

  ~CollectiveWork() override {
    if (!waited_) group_->abandon(*op_, member_, std::uncaught_exceptions() > 0);
  }

  void wait() override {
    waited_ = true;
    group_->wait(*op_, member_, name_);
  }

 private:
  const std::shared_ptr<LocalGroup> group_;
  const std::shared_ptr<LocalOp> op_;
  const int member_;
  const std::string name_;
  bool waited_ = false;
};

class LocalImpl : public ProcessGroup::Impl {
 public:
  LocalImpl(std::shared_ptr<LocalGroup> group, int member, const std::string& name)
      : Impl(member, group->ranks(), name), group_(std::move(group)) {}

  std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                              const std::string& name) override {
    OpSignature signature(OpKind::kSplit);
    for (const std::vector<int>& list : members) {
      signature.add_hidden(static_cast<int64_t>(list.size()));
      for (int member : list) signature.add_hidden(member);
    }
    for (char c : name) signature.add_hidden(c);
    const std::vector<int>& own = member_list_of(members, ranks[rank]);
    const size_t list = static_cast<size_t>(&own - members.data());
    const auto at = std::find(own.begin(), own.end(), ranks[rank]) - own.begin();
    LocalCall call;
    call.members = members;
    const auto op = group_->publish(rank, signature, std::move(call), this->name);
    group_->wait(*op, rank, this->name);
    if (own.size() == 1) return single_impl(ranks[rank], name);
    return make_local_impl(op->groups[list], static_cast<int>(at), name);
  }

  std::shared_ptr<Impl> alias(const std::string& name) override {
    return make_local_impl(group_, rank, name);
  }

  Work all_gather(ProcessGroup::Tensors full, ProcessGroup::Tensors shards) override {
    OpSignature signature(OpKind::kAllGather);
    for (const at::Tensor& tensor : full) signature.add(tensor);
    LocalCall call;
    call.in = std::move(shards);
    call.out = std::move(full);
    return publish(signature, std::move(call));
  }

  Work reduce_scatter(ProcessGroup::Tensors shards, ProcessGroup::Tensors full,
                      bool accumulate) override {
    OpSignature signature(OpKind::kReduceScatter);
    for (const at::Tensor& tensor : full) signature.add(tensor);
    for (const at::Tensor& tensor : shards) {
      signature.add_hidden(static_cast<int64_t>(tensor.scalar_type()));
    }
    LocalCall call;
    call.in = std::move(full);
    call.out = std::move(shards);
    call.accumulate = accumulate;
    return publish(signature, std::move(call));
  }

  Work all_reduce(ProcessGroup::Tensors tensors, ReduceOp op) override {
    OpSignature signature(OpKind::kAllReduce, static_cast<int64_t>(op));
    for (const at::Tensor& tensor : tensors) signature.add(tensor);
    LocalCall call;
    call.out = std::move(tensors);
    call.reduce = op;
    return publish(signature, std::move(call));
  }

  Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                  std::vector<int64_t> in_splits) override {
    OpSignature signature(OpKind::kAllToAll);
    signature.add(in, /*with_rows=*/false);
    LocalCall call;
    call.in = {std::move(in)};
    call.out = {std::move(out)};
    call.in_splits = std::move(in_splits);
    call.out_splits = std::move(out_splits);
    return publish(signature, std::move(call));
  }

  Work broadcast(ProcessGroup::Tensors tensors, int root) override {
    OpSignature signature(OpKind::kBroadcast, root);
    for (const at::Tensor& tensor : tensors) signature.add(tensor);
    LocalCall call;
    call.out = std::move(tensors);
    call.root = root;
    return publish(signature, std::move(call));
  }

  Work send(at::Tensor tensor, int peer, int64_t tag) override {
    group_->send(rank, tensor, peer, tag);
    return {};
  }

  Work recv(at::Tensor tensor, int peer, int64_t tag) override {
    return group_->recv(rank, std::move(tensor), peer, tag, name);
  }

  void barrier() override { publish(OpSignature(OpKind::kBarrier), {}).wait(); }

 private:
  Work publish(const OpSignature& signature, LocalCall call) {
    auto op = group_->publish(rank, signature, std::move(call), name);
    return Work(std::make_shared<CollectiveWork>(group_, std::move(op), rank, name));
  }

  const std::shared_ptr<LocalGroup> group_;
};

}  // namespace

std::shared_ptr<ProcessGroup::Impl> make_local_impl(std::shared_ptr<LocalGroup> group, int member,
                                                    const std::string& name) {
  return std::make_shared<LocalImpl>(std::move(group), member, name);
}

std::vector<ProcessGroup> local_groups(const std::shared_ptr<LocalWorld>& world,
                                       const std::string& name) {
  std::vector<int> ranks(world->size());
  for (int rank = 0; rank < world->size(); ++rank) ranks[rank] = rank;
  if (world->size() == 1) return {single_group(0, name)};
  const auto group = std::make_shared<LocalGroup>(world, ranks);
  std::vector<ProcessGroup> result;
  for (int rank : ranks) result.emplace_back(make_local_impl(group, rank, name));
  return result;
}

}  // namespace tessera
