#include "tessera/train/parity/altered_group.h"

#include <ATen/ATen.h>

#include "tessera/base/box.h"
#include "tessera/comm/process_group_impl.h"

namespace tessera {
namespace {

using Tensors = ProcessGroup::Tensors;
using Splits = std::vector<int64_t>;

struct Altered : ProcessGroup::Impl {
  explicit Altered(const ProcessGroup& group)
      : Impl(group.rank(), group.ranks(), group.name()), group(group) {}

  std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                              const std::string& name) override {
    return std::make_shared<Altered>(group.split(members, name));
  }
  std::shared_ptr<Impl> alias(const std::string& name) override {
    return std::make_shared<Altered>(group.alias(name));
  }
  Work all_gather(Tensors full, Tensors shards) override {
    return group.all_gather(std::move(full), std::move(shards));
  }
  Work reduce_scatter(Tensors shards, Tensors full, bool accumulate) override {
    return group.reduce_scatter(std::move(shards), std::move(full), accumulate);
  }
  Work all_reduce(Tensors tensors, ReduceOp op) override {
    return group.all_reduce(std::move(tensors), op);
  }
  Work all_to_all(at::Tensor out, at::Tensor in, Splits out_splits, Splits in_splits) override {
    return group.all_to_all(std::move(out), std::move(in), std::move(out_splits),
                            std::move(in_splits));
  }
  Work broadcast(Tensors tensors, int root) override {
    return group.broadcast(std::move(tensors), root);
  }
  Work send(at::Tensor tensor, int peer, int64_t tag) override {
    return group.send(std::move(tensor), peer, tag);
  }
  Work recv(at::Tensor tensor, int peer, int64_t tag) override {
    return group.recv(std::move(tensor), peer, tag);
  }
  void barrier() override { group.barrier(); }

  ProcessGroup group;
};

struct WithoutSums : Altered {
  using Altered::Altered;
  Work all_reduce(Tensors, ReduceOp) override { return {}; }
};

struct WithoutScatteredSums : Altered {
  using Altered::Altered;
  Work reduce_scatter(Tensors shards, Tensors full, bool accumulate) override {
    for (size_t i = 0; i < full.size(); ++i) {
      const Range own = part_of(full[i].size(0), group.size(), group.rank());
      const at::Tensor part = full[i].slice(0, own.begin, own.end);
      accumulate ? shards[i].add_(part) : shards[i].copy_(part);
    }
    return {};
  }
};

struct WithOtherTags : Altered {
  WithOtherTags(const ProcessGroup& group, std::function<int64_t(int64_t)> other)
      : Altered(group), other(std::move(other)) {}
  Work recv(at::Tensor tensor, int peer, int64_t tag) override {
    return group.recv(std::move(tensor), peer, other(tag));
  }
  std::function<int64_t(int64_t)> other;
};

struct Zeroed : Work::Impl {
  Zeroed(Work work, at::Tensor tensor) : work(std::move(work)), tensor(std::move(tensor)) {}
  void wait() override {
    work.wait();
    tensor.zero_();
  }
  Work work;
  at::Tensor tensor;
};

struct WithoutMessage : Altered {
  WithoutMessage(const ProcessGroup& group, int from, int64_t lost)
      : Altered(group), from(from), lost(lost) {}
  Work recv(at::Tensor tensor, int peer, int64_t tag) override {
    Work work = group.recv(tensor, peer, tag);
    if (peer != from || tag != lost) return work;
    return Work(std::make_shared<Zeroed>(std::move(work), std::move(tensor)));
  }
  int from;
  int64_t lost;
};

struct WithForwardSplits : Altered {
  using Altered::Altered;
  Work all_to_all(at::Tensor out, at::Tensor in, Splits out_splits, Splits in_splits) override {
    const bool back = out_splits == sent && in_splits == received;
    sent = in_splits;
    received = out_splits;
    if (back) in = misplaced(in, in_splits, out_splits);
    return group.all_to_all(std::move(out), std::move(in), std::move(out_splits),
                            std::move(in_splits));
  }
  // Blocks of `splits` rows, each from where a block of `wrong` rows would begin, around the end.
  static at::Tensor misplaced(const at::Tensor& rows, const Splits& splits, const Splits& wrong) {
    if (rows.size(0) == 0) return rows;
    Tensors places;
    int64_t begin = 0;
    for (size_t member = 0; member < splits.size(); ++member) {
      places.push_back(at::arange(begin, begin + splits[member], at::kLong));
      begin += wrong[member];
    }
    return rows.index_select(0, at::cat(places).remainder(rows.size(0)));
  }
  Splits sent, received;
};

}  // namespace

ProcessGroup without_sums(const ProcessGroup& group) {
  return ProcessGroup(std::make_shared<WithoutSums>(group));
}

ProcessGroup without_scattered_sums(const ProcessGroup& group) {
  return ProcessGroup(std::make_shared<WithoutScatteredSums>(group));
}

ProcessGroup with_other_tags(const ProcessGroup& group, std::function<int64_t(int64_t tag)> other) {
  return ProcessGroup(std::make_shared<WithOtherTags>(group, std::move(other)));
}

ProcessGroup without_message(const ProcessGroup& group, int peer, int64_t tag) {
  return ProcessGroup(std::make_shared<WithoutMessage>(group, peer, tag));
}

ProcessGroup with_forward_splits(const ProcessGroup& group) {
  return ProcessGroup(std::make_shared<WithForwardSplits>(group));
}

}  // namespace tessera
