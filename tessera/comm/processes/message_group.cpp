#include "tessera/comm/processes/message_group.h"

#include <ATen/ATen.h>

#include <numeric>

#include "tessera/base/box.h"
#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"
#include "tessera/comm/processes/pending_sends.h"
#include "tessera/comm/reduce_kernels.h"
#include "tessera/comm/single_group.h"
#include "tessera/comm/tensor_bytes.h"

namespace tessera {
namespace {

// A tag: 1 bit point to point, 8 bits group, 22 bits the caller's tag or the number of the
// collective.
constexpr int32_t kTagBits = 22;
constexpr int32_t kMaxTag = (1 << kTagBits) - 1;
constexpr int32_t kMaxGroups = 1 << 8;
constexpr int32_t kPointToPoint = 1 << 30;

// An all_reduce of few bytes is one round (all send everything to all), else two (each sums a part,
// then sends it). Few are those that take less time than the messages of a second round: of the
// tensors, and of all that a rank sends.
constexpr int64_t kOneRound = 32 << 10;
constexpr int64_t kOneRoundSent = 512 << 10;

std::byte* bytes_at(const at::Tensor& tensor, int64_t element = 0) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr()) +
         element * static_cast<int64_t>(tensor.element_size());
}

Piece piece_of(const at::Tensor& tensor, Range elements) {
  return {bytes_at(tensor, elements.begin),
          elements.size() * static_cast<int64_t>(tensor.element_size())};
}

// A part of the sum over members of one tensor: member m owns elements ranges[m] of it.
struct Part {
  at::Tensor full;
  at::Tensor own;  // where this rank's part of the sum goes
  std::vector<Range> ranges;
};

// What the views of one group under several names share.
struct GroupState {
  std::shared_ptr<MessageWorld> world;
  int32_t group = 0;
  int32_t next = 0;                             // number of the next collective
  std::shared_ptr<ProcessGroup::Impl> self;     // messages to oneself
  std::shared_ptr<PendingSends> pending_sends;  // of all groups; they keep the world, not it them
};

// A round whose messages are posted when the one before it is over.
class TwoRounds : public Work::Impl {
 public:
  TwoRounds(Work first, std::shared_ptr<MessageExchange> second,
            std::function<void(MessageExchange&)> post)
      : first_(std::move(first)), second_(std::move(second)), post_(std::move(post)) {}

  void wait() override {
    first_.wait();
    post_(*second_);
    second_->wait();
  }

 private:
  Work first_;
  const std::shared_ptr<MessageExchange> second_;
  const std::function<void(MessageExchange&)> post_;
};

class MessageGroup : public ProcessGroup::Impl {
 public:
  MessageGroup(std::shared_ptr<GroupState> state, int rank, std::vector<int> ranks,
               const std::string& name)
      : Impl(rank, std::move(ranks), name), state_(std::move(state)) {
    // Each starts with its next neighbour, so that not all send to one at a time.
    for (int i = 1; i < size(); ++i) peers_.push_back((rank + i) % size());
    for (int peer : peers_) peer_ranks_.push_back(this->ranks[peer]);
  }

  // The new groups get the first number that no member of this one has used.
  std::shared_ptr<Impl> split(const std::vector<std::vector<int>>& members,
                              const std::string& name) override {
    MessageWorld& world = *state_->world;
    const at::Tensor number = at::scalar_tensor(int64_t{world.next_group}, at::kLong);
    all_reduce({number}, ReduceOp::kMax).wait();
    const auto group = static_cast<int32_t>(number.item<int64_t>());
    TESSERA_CHECK(group < kMaxGroups, "more than ", kMaxGroups, " splits");
    world.next_group = group + 1;
    const std::vector<int>& own = member_list_of(members, ranks[rank]);
    if (own.size() == 1) return single_impl(ranks[rank], name);
    auto state = std::make_shared<GroupState>();
    state->world = state_->world;
    state->group = group;
    state->self = single_impl(ranks[rank], name);
    state->pending_sends = state_->pending_sends;
    const auto at = std::find(own.begin(), own.end(), ranks[rank]) - own.begin();
    return std::make_shared<MessageGroup>(std::move(state), static_cast<int>(at), own, name);
  }

  std::shared_ptr<Impl> alias(const std::string& name) override {
    return std::make_shared<MessageGroup>(state_, rank, ranks, name);
  }

  bool overlaps_compute() const override { return true; }

  Work all_gather(ProcessGroup::Tensors full, ProcessGroup::Tensors shards) override {
    std::vector<Piece> own;
    std::vector<std::vector<Piece>> places(peers_.size());
    for (size_t i = 0; i < full.size(); ++i) {
      own.push_back(piece_of(shards[i], {0, shards[i].numel()}));
      copy_bytes(piece_of(full[i], rows(full[i], rank)).data, own.back().data, own.back().bytes);
      for (size_t k = 0; k < peers_.size(); ++k) {
        places[k].push_back(piece_of(full[i], rows(full[i], peers_[k])));
      }
    }
    const auto exchange = start("all_gather");
    for (size_t k = 0; k < peers_.size(); ++k) exchange->recv(peer_ranks_[k], places[k]);
    exchange->send_to_all(peer_ranks_, own);
    exchange->keep(std::move(full));
    exchange->keep(std::move(shards));
    return Work(exchange);
  }

  Work reduce_scatter(ProcessGroup::Tensors shards, ProcessGroup::Tensors full,
                      bool accumulate) override {
    std::vector<Part> parts;
    for (size_t i = 0; i < full.size(); ++i) {
      Part part{full[i], shards[i], {}};
      for (int member = 0; member < size(); ++member) {
        part.ranges.push_back(rows(full[i], member));
      }
      parts.push_back(std::move(part));
    }
    return sum_parts("reduce_scatter", std::move(parts), ReduceOp::kSum, accumulate);
  }

  Work all_reduce(ProcessGroup::Tensors tensors, ReduceOp op) override {
    int64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
    std::vector<Part> parts;
    if (bytes <= kOneRound && bytes * (size() - 1) <= kOneRoundSent) {
      // Everybody sums everything; what travels is a copy, as the sum may be ready first.
      for (const at::Tensor& tensor : tensors) {
        const Range all{0, tensor.numel()};
        parts.push_back({tensor.clone(), tensor, std::vector<Range>(size(), all)});
      }
      return sum_parts("all_reduce", std::move(parts), op, false);
    }
    for (const at::Tensor& tensor : tensors) {
      const at::Tensor flat = tensor.view(-1);
      std::vector<Range> ranges;
      for (int m = 0; m < size(); ++m) ranges.push_back(part_of(flat.numel(), size(), m));
      const Range own = ranges[rank];
      parts.push_back({flat, flat.slice(0, own.begin, own.end), std::move(ranges)});
    }
    Work first = sum_parts("all_reduce", parts, op, false);
    const auto post = [parts, rank = rank, peers = peers_,
                       ranks = peer_ranks_](MessageExchange& exchange) {
      std::vector<Piece> own;
      for (const Part& part : parts) {
        exchange.keep({part.full});
        own.push_back(piece_of(part.full, part.ranges[rank]));
      }
      for (size_t k = 0; k < peers.size(); ++k) {
        std::vector<Piece> places;
        for (const Part& part : parts) places.push_back(piece_of(part.full, part.ranges[peers[k]]));
        exchange.recv(ranks[k], std::move(places));
      }
      exchange.send_to_all(ranks, own);
    };
    return Work(std::make_shared<TwoRounds>(std::move(first), start("all_reduce"), post));
  }

  Work all_to_all(at::Tensor out, at::Tensor in, std::vector<int64_t> out_splits,
                  std::vector<int64_t> in_splits) override {
    const std::vector<Range> to = ranges_of(out_splits, row_elements(out));
    const std::vector<Range> from = ranges_of(in_splits, row_elements(in));
    const auto exchange = start("all_to_all");
    for (int peer : peers_) exchange->recv(ranks[peer], {piece_of(out, to[peer])});
    for (int peer : peers_) exchange->send(ranks[peer], {piece_of(in, from[peer])});
    const Piece own = piece_of(in, from[rank]);
    copy_bytes(piece_of(out, to[rank]).data, own.data, own.bytes);
    exchange->keep({std::move(out), std::move(in)});
    return Work(exchange);
  }

  Work broadcast(ProcessGroup::Tensors tensors, int root) override {
    const auto exchange = start("broadcast");
    std::vector<Piece> pieces;
    for (const at::Tensor& tensor : tensors)
      pieces.push_back(piece_of(tensor, {0, tensor.numel()}));
    if (rank == root) {
      exchange->send_to_all(peer_ranks_, pieces);
    } else {
      exchange->recv(ranks[root], std::move(pieces));
    }
    exchange->keep(std::move(tensors));
    return Work(exchange);
  }

  // A message leaves when its receiver asks for it, so a copy waits for that.
  Work send(at::Tensor tensor, int peer, int64_t tag) override {
    if (peer == rank) return state_->self->send(std::move(tensor), 0, tag);
    at::Tensor copy = tensor.detach().clone();
    const auto exchange = message("send", tag);
    exchange->send(ranks[peer], {piece_of(copy, {0, copy.numel()})});
    exchange->keep({std::move(copy)});
    if (!exchange->done()) state_->pending_sends->add(exchange);
    return {};
  }

  Work recv(at::Tensor tensor, int peer, int64_t tag) override {
    if (peer == rank) return state_->self->recv(std::move(tensor), 0, tag);
    const auto exchange = message("recv", tag);
    exchange->recv(ranks[peer], {piece_of(tensor, {0, tensor.numel()})});
    exchange->keep({std::move(tensor)});
    return Work(exchange);
  }

  void barrier() override {
    const at::Tensor token = at::zeros({size()}, at::kByte);
    const auto exchange = start("barrier");
    for (int peer : peers_) exchange->recv(ranks[peer], {piece_of(token, {peer, peer + 1})});
    exchange->send_to_all(peer_ranks_, {piece_of(token, {rank, rank + 1})});
    exchange->wait();
  }

 private:
  Range rows(const at::Tensor& full, int member) const {
    const Range range = part_of(full.size(0), size(), member);
    const int64_t row = row_elements(full);
    return {range.begin * row, range.end * row};
  }

  static std::vector<Range> ranges_of(const std::vector<int64_t>& splits, int64_t row) {
    std::vector<Range> ranges;
    int64_t begin = 0;
    for (int64_t split : splits) {
      ranges.push_back({begin, begin + split * row});
      begin += split * row;
    }
    return ranges;
  }

  std::shared_ptr<MessageExchange> exchange(int32_t tag, const std::string& what) {
    return std::make_shared<MessageExchange>(state_->world, (state_->group << kTagBits) | tag,
                                             what + " in group " + name);
  }

  std::shared_ptr<MessageExchange> start(const char* operation) {
    const int32_t number = state_->next;
    state_->next = (state_->next + 1) & kMaxTag;
    return exchange(number, detail::concat(operation, " (number ", number, ")"));
  }

  std::shared_ptr<MessageExchange> message(const char* operation, int64_t tag) {
    TESSERA_CHECK(tag >= 0 && tag <= kMaxTag, "tag ", tag, " is not in 0 to ", kMaxTag);
    return exchange(kPointToPoint | static_cast<int32_t>(tag),
                    detail::concat(operation, " with tag ", tag));
  }

  // Every member sends the others their parts and sums what it gets for its own.
  Work sum_parts(const char* operation, std::vector<Part> parts, ReduceOp op, bool accumulate) {
    const auto exchange = start(operation);
    std::vector<ReduceKernel> kernels;
    std::vector<std::vector<const void*>> inputs(parts.size());  // [part][member]
    std::vector<std::vector<Piece>> arriving(static_cast<size_t>(size()));
    for (size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      kernels.push_back(reduce_kernel(part.own.scalar_type(), part.full.scalar_type(), op));
      const at::Tensor stage =
          at::empty({size() - 1, part.ranges[rank].size()}, part.full.options());
      int row = 0;
      for (int member = 0; member < size(); ++member) {
        const Piece piece = member == rank ? piece_of(part.full, part.ranges[rank])
                                           : piece_of(stage[row++], {0, stage.size(1)});
        inputs[i].push_back(piece.data);
        arriving[member].push_back(piece);
      }
      exchange->keep({stage, part.full, part.own});
    }
    for (int peer : peers_) exchange->recv(ranks[peer], arriving[peer]);
    for (int peer : peers_) {
      std::vector<Piece> pieces;
      for (const Part& part : parts) pieces.push_back(piece_of(part.full, part.ranges[peer]));
      exchange->send(ranks[peer], pieces);
    }
    exchange->then([parts = std::move(parts), inputs = std::move(inputs),
                    kernels = std::move(kernels), accumulate] {
      for (size_t i = 0; i < parts.size(); ++i) {
        kernels[i](parts[i].own.mutable_data_ptr(), accumulate, inputs[i].data(),
                   static_cast<int>(inputs[i].size()), parts[i].own.numel());
      }
    });
    return Work(exchange);
  }

  const std::shared_ptr<GroupState> state_;
  std::vector<int> peers_;       // the other members, the next neighbour first
  std::vector<int> peer_ranks_;  // their world ranks
};

}  // namespace

ProcessGroup message_group(std::unique_ptr<MessageTransport> transport, int rank, int size,
                           GroupOptions options, const std::string& name,
                           std::shared_ptr<RankPage> page) {
  if (size == 1) return single_group(rank, name);
  auto state = std::make_shared<GroupState>();
  state->world = std::make_shared<MessageWorld>();
  state->world->transport = std::move(transport);
  state->world->options = options;
  state->world->page = std::move(page);
  state->world->next_group = 1;
  state->self = single_impl(rank, name);
  state->pending_sends = std::make_shared<PendingSends>();
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ProcessGroup(
      std::make_shared<MessageGroup>(std::move(state), rank, std::move(ranks), name));
}

}  // namespace tessera
