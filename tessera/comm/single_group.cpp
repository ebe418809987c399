#include "tessera/comm/single_group.h"

#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"
#include "tessera/comm/reduce_kernels.h"

namespace tessera {
namespace {

// Messages a rank sends to itself.
struct Mailbox {
  std::mutex mutex;
  std::map<int64_t, std::deque<at::Tensor>> messages;
};

void copy_tensor(const at::Tensor& to, const at::Tensor& from) {
  if (to.const_data_ptr() == from.const_data_ptr() || to.numel() == 0) return;
  if (to.device().is_cpu() && from.device().is_cpu()) {
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), to.nbytes());
  } else {
    to.variable_data().copy_(from.variable_data());  // no write that autograd should see
  }
}

class SingleImpl : public ProcessGroup::Impl {
 public:
  SingleImpl(int world_rank, const std::string& name, const at::Device& device,
             std::shared_ptr<Mailbox> mailbox)
      : Impl(0, {world_rank}, name), device_(device), mailbox_(std::move(mailbox)) {}

  std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                              const std::string& name) override {
    TESSERA_CHECK_EQ(member_list_of(members, ranks[0]).size(), size_t{1}, "split of one rank");
    return single_impl(ranks[0], name, device_);
  }

  std::shared_ptr<Impl> alias(const std::string& name) override {
    return std::make_shared<SingleImpl>(ranks[0], name, device_, mailbox_);
  }

  at::Device device() const override { return device_; }

  Work all_gather(ProcessGroup::Tensors full, ProcessGroup::Tensors shards) override {
    for (size_t i = 0; i < full.size(); ++i) copy_tensor(full[i], shards[i]);
    return {};
  }

  Work reduce_scatter(ProcessGroup::Tensors shards, ProcessGroup::Tensors full,
                      bool accumulate) override {
    for (size_t i = 0; i < full.size(); ++i) {
      if (!full[i].device().is_cpu()) {
        const at::Tensor to = shards[i].variable_data();
        accumulate ? to.add_(full[i].variable_data()) : to.copy_(full[i].variable_data());
        continue;
      }
      const void* in = full[i].const_data_ptr();
      void* out = shards[i].mutable_data_ptr();
      if (in == out && !accumulate) continue;
      const auto kernel =
          reduce_kernel(shards[i].scalar_type(), full[i].scalar_type(), ReduceOp::kSum);
      kernel(out, accumulate, &in, 1, full[i].numel());
    }
    return {};
  }

  Work all_reduce(ProcessGroup::Tensors, ReduceOp) override { return {}; }

  Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t>,
                  std::vector<int64_t>) override {
    copy_tensor(out, in);
    return {};
  }

  Work broadcast(ProcessGroup::Tensors, int) override { return {}; }

  Work send(at::Tensor tensor, int, int64_t tag) override {
    at::Tensor copy = tensor.detach().clone();
    std::lock_guard lock(mailbox_->mutex);
    mailbox_->messages[tag].push_back(std::move(copy));
    return {};
  }

  // A message from oneself is there already, or it will never be.
  Work recv(at::Tensor tensor, int, int64_t tag) override {
    std::lock_guard lock(mailbox_->mutex);
    auto& queue = mailbox_->messages[tag];
    if (queue.empty()) {
      throw CommError("recv with tag " + std::to_string(tag) + " in group " + name +
                      ": the rank is alone and has not sent it");
    }
    TESSERA_CHECK_EQ(queue.front().nbytes(), tensor.nbytes(), "bytes of a message, tag ", tag);
    copy_tensor(tensor, queue.front());
    queue.pop_front();
    return {};
  }

  void barrier() override {}

 private:
  const at::Device device_;
  const std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace

ProcessGroup single_group(int world_rank, const std::string& name, const at::Device& device) {
  return ProcessGroup(single_impl(world_rank, name, device));
}

std::shared_ptr<ProcessGroup::Impl> single_impl(int world_rank, const std::string& name,
                                                const at::Device& device) {
  return std::make_shared<SingleImpl>(world_rank, name, device, std::make_shared<Mailbox>());
}

}  // namespace tessera
