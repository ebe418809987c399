#include "tessera/comm/fake_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"

namespace tessera {
namespace {

class FakeImpl : public ProcessGroup::Impl {
 public:
  using Impl::Impl;

  std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                              const std::string& name) override {
    const std::vector<int>& own = member_list_of(members, ranks[rank]);
    const auto at = std::find(own.begin(), own.end(), ranks[rank]) - own.begin();
    return std::make_shared<FakeImpl>(static_cast<int>(at), own, name);
  }

  std::shared_ptr<Impl> alias(const std::string& name) override {
    return std::make_shared<FakeImpl>(rank, ranks, name);
  }

  Work all_gather(ProcessGroup::Tensors full, ProcessGroup::Tensors shards) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < full.size(); ++i) {
      const at::Tensor shard = shards[i].clone();  // it may lie in `full`
      full[i].zero_();
      own_rows(full[i]).copy_(shard);
    }
    return {};
  }

  Work reduce_scatter(ProcessGroup::Tensors shards, ProcessGroup::Tensors full,
                      bool accumulate) override {
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < full.size(); ++i) {
      if (accumulate) {
        shards[i].add_(own_rows(full[i]));
      } else {
        shards[i].copy_(own_rows(full[i]));
      }
    }
    return {};
  }

  Work all_reduce(ProcessGroup::Tensors, ReduceOp) override { return {}; }

  Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                  std::vector<int64_t> in_splits) override {
    const at::NoGradGuard no_grad;
    const auto begin = [&](const std::vector<int64_t>& splits) {
      return std::accumulate(splits.begin(), splits.begin() + rank, int64_t{0});
    };
    const int64_t rows = in_splits[rank];
    out.zero_();
    out.narrow(0, begin(out_splits), rows).copy_(in.narrow(0, begin(in_splits), rows));
    return {};
  }

  Work broadcast(ProcessGroup::Tensors, int) override { return {}; }
  Work send(at::Tensor, int, int64_t) override { return {}; }
  Work recv(at::Tensor tensor, int, int64_t) override {
    const at::NoGradGuard no_grad;
    tensor.zero_();
    return {};
  }
  void barrier() override {}

 private:
  at::Tensor own_rows(const at::Tensor& full) const {
    const Range own = part_of(full.size(0), size(), rank);
    return full.slice(0, own.begin, own.end);
  }
};

}  // namespace

ProcessGroup fake_group(int rank, int size, const std::string& name) {
  TESSERA_CHECK(rank >= 0 && rank < size, "rank ", rank, " of ", size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ProcessGroup(std::make_shared<FakeImpl>(rank, std::move(ranks), name));
}

}  // namespace tessera
