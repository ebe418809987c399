#include "tessera/parallel/context/key_exchange.h"

#include <ATen/ATen.h>

#include <utility>

namespace tessera {
namespace {

// All keys and values at once; gathered again for the backward pass.
class Gathered : public KeyValues {
 public:
  Gathered(KeyPlan plan, ProcessGroup group) : plan_(std::move(plan)), group_(std::move(group)) {}

  void forward(const at::Tensor& k, const at::Tensor& v, BlockAttention& attention) override {
    const auto [keys, values, work] = gather(k, v);
    attention.attend(k, v, plan_.mine[me()]);  // while the others' are gathered
    Work(work).wait();
    for (size_t peer = 0; peer < plan_.mine.size(); ++peer) {
      if (peer != me()) attention.attend(part(keys, peer), part(values, peer), plan_.mine[peer]);
    }
  }

  void backward(const AttentionSaved& s, at::Tensor& dq, at::Tensor& dk, at::Tensor& dv) override {
    const auto [keys, values, work] = gather(s.k, s.v);
    at::Tensor all_dk = at::zeros(keys.sizes(), dk.options());
    at::Tensor all_dv = at::zeros(values.sizes(), dv.options());
    const auto differentiate = [&](size_t peer, const at::Tensor& k, const at::Tensor& v) {
      attend_backward(s, k, v, plan_.mine[peer], dq, part(all_dk, peer), part(all_dv, peer));
    };
    differentiate(me(), s.k, s.v);  // while the others' are gathered
    Work(work).wait();
    for (size_t peer = 0; peer < plan_.mine.size(); ++peer) {
      if (peer != me()) differentiate(peer, part(keys, peer), part(values, peer));
    }
    group_.reduce_scatter({dk, dv}, {all_dk, all_dv}).wait();
  }

 private:
  size_t me() const { return static_cast<size_t>(group_.rank()); }
  // [R, L, M, D] of one member out of [n R, L, M, D].
  at::Tensor part(const at::Tensor& all, size_t peer) const {
    const int64_t rows = all.size(0) / group_.size();
    return all.narrow(0, static_cast<int64_t>(peer) * rows, rows);
  }
  std::tuple<at::Tensor, at::Tensor, Work> gather(const at::Tensor& k, const at::Tensor& v) const {
    const auto sized = [&](const at::Tensor& x) {
      std::vector<int64_t> sizes = x.sizes().vec();
      sizes[0] *= group_.size();
      return at::empty(sizes, x.options());
    };
    at::Tensor keys = sized(k), values = sized(v);
    Work work = group_.all_gather({keys, values}, {k.contiguous(), v.contiguous()});
    return {keys, values, work};
  }

  KeyPlan plan_;
  ProcessGroup group_;
};

// In hop h every rank works on the keys and values of the rank h places before it, while the keys
// and values of hop h + 1 are on their way. What no query sees is not sent.
class Ring : public KeyValues {
 public:
  Ring(KeyPlan plan, ProcessGroup group) : plan_(std::move(plan)), group_(std::move(group)) {}

  void forward(const at::Tensor& k, const at::Tensor& v, BlockAttention& attention) override {
    const at::Tensor own_k = k.contiguous(), own_v = v.contiguous();
    Arriving next = start(1, own_k, own_v);
    attention.attend(own_k, own_v, plan_.mine[before(0)]);
    for (int hop = 1; hop < group_.size(); ++hop) {
      Arriving now = std::move(next);
      next = start(hop + 1, own_k, own_v);
      now.wait();
      if (now.k.defined()) attention.attend(now.k, now.v, plan_.mine[before(hop)]);
    }
  }

  void backward(const AttentionSaved& s, at::Tensor& dq, at::Tensor& dk, at::Tensor& dv) override {
    const at::Tensor own_k = s.k.contiguous(), own_v = s.v.contiguous();
    Arriving next = start(1, own_k, own_v);
    attend_backward(s, own_k, own_v, plan_.mine[before(0)], dq, dk, dv);
    // What others' queries give to my keys is added in the order of hops, one hop later: no more
    // than two hops' keys, values and gradients of them exist at once.
    Arriving contribution, sending;
    const auto add = [&] {
      contribution.wait();
      if (!contribution.k.defined()) return;
      dk.add_(contribution.k);
      dv.add_(contribution.v);
    };
    for (int hop = 1; hop < group_.size(); ++hop) {
      Arriving now = std::move(next);
      next = start(hop + 1, own_k, own_v);
      Arriving from_peer, to_peer;
      if (plan_.of_mine[after(hop)]) from_peer = receive(after(hop), dk, dv, kGradient);
      now.wait();
      if (now.k.defined()) {
        at::Tensor peer_dk = at::zeros(dk.sizes(), dk.options());
        at::Tensor peer_dv = at::zeros(dv.sizes(), dv.options());
        attend_backward(s, now.k, now.v, plan_.mine[before(hop)], dq, peer_dk, peer_dv);
        to_peer = send(before(hop), peer_dk, peer_dv, kGradient);
      }
      add();
      contribution = std::move(from_peer);
      sending.wait();
      sending = std::move(to_peer);
    }
    add();
    sending.wait();
  }

 private:
  // Tags; k and v follow each other.
  static constexpr int64_t kValue = 0, kGradient = kRingKeyGradientTag;

  struct Arriving {
    at::Tensor k, v;
    std::vector<Work> work;
    void wait() {
      for (Work& w : work) w.wait();
      work.clear();
    }
  };

  size_t before(int hop) const {
    return static_cast<size_t>((group_.rank() - hop + group_.size()) % group_.size());
  }
  size_t after(int hop) const { return static_cast<size_t>((group_.rank() + hop) % group_.size()); }

  Arriving send(size_t peer, const at::Tensor& k, const at::Tensor& v, int64_t tag) const {
    Arriving sending{k, v, {}};
    sending.work.push_back(group_.send(k, static_cast<int>(peer), tag));
    sending.work.push_back(group_.send(v, static_cast<int>(peer), tag + 1));
    return sending;
  }
  Arriving receive(size_t peer, const at::Tensor& like_k, const at::Tensor& like_v,
                   int64_t tag) const {
    Arriving arriving{at::empty(like_k.sizes(), like_k.options()),
                      at::empty(like_v.sizes(), like_v.options()),
                      {}};
    arriving.work.push_back(group_.recv(arriving.k, static_cast<int>(peer), tag));
    arriving.work.push_back(group_.recv(arriving.v, static_cast<int>(peer), tag + 1));
    return arriving;
  }
  // Sends mine for hop `hop` and posts the receive of that hop. Undefined k: nothing comes.
  Arriving start(int hop, const at::Tensor& k, const at::Tensor& v) const {
    Arriving arriving;
    if (hop >= group_.size()) return arriving;
    if (!plan_.mine[before(hop)].empty()) arriving = receive(before(hop), k, v, kValue);
    if (plan_.of_mine[after(hop)]) {
      for (Work& work : send(after(hop), k, v, kValue).work) arriving.work.push_back(work);
    }
    return arriving;
  }

  KeyPlan plan_;
  ProcessGroup group_;
};

}  // namespace

std::shared_ptr<KeyValues> make_key_exchange(KeyPlan plan, const ProcessGroup& group,
                                             KeyExchange how, const at::Tensor& k) {
  if (travels_in_ring(how, group.size(), static_cast<int64_t>(k.nbytes()))) {
    return std::make_shared<Ring>(std::move(plan), group);
  }
  return std::make_shared<Gathered>(std::move(plan), group);
}

}  // namespace tessera
