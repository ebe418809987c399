#include "tessera/comm/devices/nccl_group.h"

#ifdef TESSERA_WITH_NCCL

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <map>
#include <tuple>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/comm/devices/nccl_channel.h"
#include "tessera/comm/operation_watch.h"
#include "tessera/comm/process_group_impl.h"
#include "tessera/comm/single_group.h"

namespace tessera {
namespace {

using Tensors = ProcessGroup::Tensors;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Works = std::vector<WorkPointer>;  // of one operation, complete in this order

struct NcclWorld {
  std::shared_ptr<MeetingPoint> meeting;
  at::Device device = at::kCPU;
  std::unique_ptr<OperationWatch> watch;  // gone before the meeting

  c10::intrusive_ptr<c10d::Store> store() const {
    return c10::intrusive_ptr<c10d::Store>::reclaim_copy(&meeting->store());
  }
  // After it c10d ends the process without saying who is missing; the watch has by then.
  std::chrono::milliseconds last_resort() const { return 2 * meeting->options().timeout; }
};

// The host may be deep in the driver, waiting for the device: nothing can be thrown there.
void end_process(const std::string& message) {
  log_error(message);
  std::_Exit(static_cast<int>(ExitCode::kComm));
}

c10d::ReduceOp::RedOpType nccl_operation(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return c10d::ReduceOp::SUM;
    case ReduceOp::kMax: return c10d::ReduceOp::MAX;
    case ReduceOp::kMin: return c10d::ReduceOp::MIN;
  }
  return c10d::ReduceOp::SUM;
}

bool on_host(const Tensors& tensors) { return tensors.empty() || tensors[0].device().is_cpu(); }

// The memory of x without its version counter: a message is no write that autograd should see.
at::Tensor memory_of(const at::Tensor& x) { return x.variable_data(); }

at::Tensor with_rows(const at::Tensor& x, int64_t rows) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = rows;
  return at::zeros(sizes, x.options().requires_grad(false));
}

// NCCL wants equal parts: x with rows of zeros behind it.
at::Tensor padded(const at::Tensor& x, int64_t rows) {
  at::Tensor out = with_rows(x, rows);
  out.narrow(0, 0, x.size(0)).copy_(memory_of(x));
  return out;
}

class DeviceWork : public Work::Impl {
 public:
  DeviceWork(std::string what, std::vector<std::function<void()>> waits, std::function<void()> then)
      : what_(std::move(what)), waits_(std::move(waits)), then_(std::move(then)) {}

  void wait() override {
    try {
      for (const auto& wait : waits_) wait();
    } catch (const std::exception& error) {
      throw CommError(what_ + ": " + first_line(error));
    }
    if (then_) then_();
  }

 private:
  const std::string what_;
  const std::vector<std::function<void()>> waits_;
  const std::function<void()> then_;  // on the stream that waited
};

// What the views of one group under several names share.
struct GroupState {
  std::shared_ptr<const NcclWorld> world;
  std::string key;                                     // in the store
  std::shared_ptr<OperationWatch::Lane> lane;          // of the collectives
  int splits = 0;                                      // made of this group
  c10::intrusive_ptr<c10d::ProcessGroupNCCL> members;  // made on first use
  std::map<std::tuple<int, int, int64_t>, std::unique_ptr<NcclChannel>> channels;
  std::shared_ptr<ProcessGroup::Impl> self;  // messages to oneself
};

class NcclGroup : public ProcessGroup::Impl {
 public:
  NcclGroup(std::shared_ptr<GroupState> state, ProcessGroup host, const std::string& name)
      : Impl(host.rank(), host.ranks(), name), state_(std::move(state)), host_(std::move(host)) {}

  std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                              const std::string& name) override {
    const std::vector<int>& own = member_list_of(members, ranks[rank]);
    const ProcessGroup host = host_.split(members, name);
    const int number = state_->splits++;
    if (own.size() == 1) return single_impl(ranks[rank], name, device());
    auto state = std::make_shared<GroupState>();
    state->world = state_->world;
    state->key = detail::concat(state_->key, "/", number, ".", own.front());
    state->lane = state_->world->watch->lane(state->key, own);
    state->self = single_impl(ranks[rank], name, device());
    return std::make_shared<NcclGroup>(std::move(state), host, name);
  }

  std::shared_ptr<Impl> alias(const std::string& name) override {
    return std::make_shared<NcclGroup>(state_, host_.alias(name), name);
  }

  at::Device device() const override { return state_->world->device; }
  bool overlaps_compute() const override { return true; }

  Work all_gather(Tensors full, Tensors shards) override {
    if (on_host(full)) return host_.all_gather(std::move(full), std::move(shards));
    Tensors outputs, inputs;
    for (size_t i = 0; i < full.size(); ++i) {
      const int64_t rows = largest_part(full[i].size(0), size());
      const bool even = rows * size() == full[i].size(0);
      inputs.push_back(even ? memory_of(shards[i]) : padded(shards[i], rows));
      outputs.push_back(even ? memory_of(full[i]) : with_rows(full[i], rows * size()));
    }
    const auto then = [full, outputs] {
      for (size_t i = 0; i < full.size(); ++i) {
        if (outputs[i].size(0) == full[i].size(0)) continue;
        memory_of(full[i]).copy_(outputs[i].narrow(0, 0, full[i].size(0)));
      }
    };
    return start(
        "all_gather",
        [&] { return Works{members().allgather_into_tensor_coalesced(outputs, inputs)}; }, then);
  }

  Work reduce_scatter(Tensors shards, Tensors full, bool accumulate) override {
    if (on_host(full)) {
      return host_.reduce_scatter(std::move(shards), std::move(full), accumulate);
    }
    Tensors outputs, inputs;
    for (size_t i = 0; i < full.size(); ++i) {
      const int64_t rows = largest_part(full[i].size(0), size());
      const bool even = rows * size() == full[i].size(0);
      const at::Tensor input = memory_of(full[i]).to(shards[i].scalar_type());
      inputs.push_back(even ? input : padded(input, rows * size()));
      outputs.push_back(even && !accumulate ? memory_of(shards[i])
                                            : at::empty_like(inputs[i].narrow(0, 0, rows)));
    }
    const auto then = [shards, outputs, accumulate] {
      for (size_t i = 0; i < shards.size(); ++i) {
        if (outputs[i].is_alias_of(shards[i])) continue;
        const at::Tensor own = outputs[i].narrow(0, 0, shards[i].size(0));
        accumulate ? memory_of(shards[i]).add_(own) : memory_of(shards[i]).copy_(own);
      }
    };
    return start(
        "reduce_scatter",
        [&] { return Works{members().reduce_scatter_tensor_coalesced(outputs, inputs)}; }, then);
  }

  Work all_reduce(Tensors tensors, ReduceOp op) override {
    if (on_host(tensors)) return host_.all_reduce(std::move(tensors), op);
    c10d::AllreduceCoalescedOptions options;
    options.reduceOp = nccl_operation(op);
    return start("all_reduce",
                 [&] { return Works{members().allreduce_coalesced(tensors, options)}; });
  }

  Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                  std::vector<int64_t> in_splits) override {
    if (on_host({out})) {
      return host_.all_to_all(std::move(out), std::move(in), std::move(out_splits),
                              std::move(in_splits));
    }
    at::Tensor to = memory_of(out), from = memory_of(in);
    return start("all_to_all",
                 [&] { return Works{members().alltoall_base(to, from, out_splits, in_splits)}; });
  }

  Work broadcast(Tensors tensors, int root) override {
    if (on_host(tensors)) return host_.broadcast(std::move(tensors), root);
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return start("broadcast", [&] {
      Works works;
      for (const at::Tensor& tensor : tensors) {
        Tensors one = {tensor};
        works.push_back(members().broadcast(one, options));
      }
      return works;
    });
  }

  Work send(at::Tensor tensor, int peer, int64_t tag) override {
    if (on_host({tensor})) return host_.send(std::move(tensor), peer, tag);
    if (peer == rank) return state_->self->send(std::move(tensor), 0, tag);
    const at::Tensor copy = memory_of(tensor).clone();
    channel(rank, peer, tag).post(what("send"), [copy](c10d::ProcessGroupNCCL& two) {
      Tensors one = {copy};
      return two.send(one, 1, 0);
    });
    return {};
  }

  Work recv(at::Tensor tensor, int peer, int64_t tag) override {
    if (on_host({tensor})) return host_.recv(std::move(tensor), peer, tag);
    if (peer == rank) return state_->self->recv(std::move(tensor), 0, tag);
    const at::Tensor memory = memory_of(tensor);
    auto wait = channel(peer, rank, tag).post(what("recv"), [memory](c10d::ProcessGroupNCCL& two) {
      Tensors one = {memory};
      return two.recv(one, 0, 0);
    });
    return Work(std::make_shared<DeviceWork>(what("recv"), std::vector{std::move(wait)}, nullptr));
  }

  void barrier() override { host_.barrier(); }

 private:
  std::string what(const char* operation) const {
    return std::string(operation) + " in group " + name + " (NCCL)";
  }

  // `post` waits for the others when it is the group's first.
  Work start(const char* operation, const std::function<Works()>& post,
             std::function<void()> then = nullptr) {
    const std::string text = what(operation);
    const int64_t number = state_->lane->begin(text);
    const Works works = post();
    state_->lane->started(number, [last = works.back()] { return last->isCompleted(); });
    std::vector<std::function<void()>> waits;
    for (const WorkPointer& work : works) waits.emplace_back([work] { work->wait(); });
    return Work(std::make_shared<DeviceWork>(text, std::move(waits), std::move(then)));
  }

  c10d::ProcessGroupNCCL& members() {
    if (!state_->members) {
      const auto options = c10d::ProcessGroupNCCL::Options::create();
      options->timeout = state_->world->last_resort();
      options->group_name = state_->key;
      state_->members = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>(state_->key, state_->world->store()), rank, size(),
          options);
    }
    return *state_->members;
  }

  // Lanes that do not wait for each other: forwards and backwards of a pipeline, keys, values and
  // their gradients in a ring. Nor do they in the store, whose client serves one waiting get at a
  // time: each has a client of its own.
  NcclChannel& channel(int from, int to, int64_t tag) {
    const int64_t lane = tag % 4;
    std::unique_ptr<NcclChannel>& made = state_->channels[{from, to, lane}];
    if (!made) {
      const std::string key =
          detail::concat(state_->key, "/", ranks[from], "-", ranks[to], ".", lane);
      made =
          std::make_unique<NcclChannel>(state_->world->store()->clone(),
                                        state_->world->watch->lane(key, {ranks[from], ranks[to]}),
                                        from == rank, device(), state_->world->last_resort());
    }
    return *made;
  }

  const std::shared_ptr<GroupState> state_;
  const ProcessGroup host_;
};

}  // namespace

ProcessGroup nccl_group(std::shared_ptr<MeetingPoint> meeting, const ProcessGroup& host,
                        const at::Device& device) {
  auto world = std::make_shared<NcclWorld>();
  world->meeting = std::move(meeting);
  world->device = device;
  OperationWatch::Options watching;
  watching.rank = host.ranks()[static_cast<size_t>(host.rank())];
  watching.timeout = world->meeting->options().timeout;
  watching.report = end_process;
  world->watch = std::make_unique<OperationWatch>(world->store()->clone(), std::move(watching));
  auto state = std::make_shared<GroupState>();
  state->key = "nccl";
  state->lane = world->watch->lane(state->key, host.ranks());
  state->world = std::move(world);
  state->self = single_impl(host.ranks()[static_cast<size_t>(host.rank())], host.name(), device);
  return ProcessGroup(std::make_shared<NcclGroup>(std::move(state), host, host.name()));
}

}  // namespace tessera

#endif
