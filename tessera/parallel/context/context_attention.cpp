#include "tessera/parallel/context/context_attention.h"

#include <ATen/ATen.h>

#include <array>

#include "tessera/base/error.h"
#include "tessera/nn/attention/max_logits.h"
#include "tessera/nn/scalar_type.h"
#include "tessera/parallel/context/head_exchange.h"
#include "tessera/parallel/context/key_exchange.h"
#include "tessera/parallel/custom_gradient.h"

namespace tessera {
namespace {

// Places of a sample that each group of neighbours holds: its members' pieces one after the other.
std::vector<std::vector<Range>> outer_pieces(const std::vector<std::vector<Range>>& of_ranks,
                                             int64_t inner) {
  std::vector<std::vector<Range>> outer;
  for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
    if (static_cast<int64_t>(rank) % inner == 0) outer.emplace_back();
    for (const Range& piece : of_ranks[rank]) {
      if (!outer.back().empty() && outer.back().back().end == piece.begin) {
        outer.back().back().end = piece.end;
      } else {
        outer.back().push_back(piece);
      }
    }
  }
  return outer;
}

// What a call and its backward share.
struct State {
  std::array<int64_t, 3> heads{};         // of q, k, v before the trade
  std::array<HeadExchange, 3> returning;  // gradients on their way back (async)
  int64_t pairs = 0;                      // of queries and keys that this rank computes, of a head
  at::Tensor q, k, v, out, lse;           // [R, L, heads here, D]
  AttentionScores scores;                 // without sinks
  at::Tensor sinks;                       // [heads here] in the type of lse, or undefined
  at::ScalarType sinks_type = at::kFloat;
};

// [N] of the heads before the trade: zeros but for those of this rank, to be summed over the ranks
// like the gradient of any weight.
at::Tensor gradient_of_sinks(const State& s, const at::Tensor& grad_out_RLNE,
                             const ProcessGroup& inner) {
  const at::Tensor mean = (grad_out_RLNE * s.out).sum(-1, /*keepdim=*/false, s.lse.scalar_type());
  const at::Tensor share = (s.sinks.view({1, -1, 1}) - s.lse).exp_();
  at::Tensor all = at::zeros({s.heads[0]}, s.lse.options());
  const int64_t here = s.sinks.size(0);
  all.narrow(0, inner.rank() * here, here).sub_((share * mean.transpose(1, 2)).sum({0, 2}));
  return all;
}

class ContextCall : public AttentionCall {
 public:
  ContextCall(const ContextAttention& owner, const LayerContext& context)
      : owner_(owner), context_(context), state_(std::make_shared<State>()) {}

  void offer(AttentionInput which, at::Tensor x_TND) override {
    const auto i = static_cast<size_t>(which);
    state_->heads[i] = x_TND.size(1);
    {
      const at::NoGradGuard no_grad;
      exchanges_[i] = sequence_to_heads(x_TND.detach(), context_.rows, owner_.inner);
      if (!owner_.async) exchanges_[i].work.wait();
    }
    if (owner_.async && owner_.inner.size() > 1) {
      // Its gradient is awaited here, as late as the projection's backward.
      x_TND = custom_gradient({x_TND}, x_TND.detach(), [state = state_, i](const at::Tensor&) {
        return std::vector<at::Tensor>{state->returning[i].finish()};
      });
    }
    inputs_[i] = std::move(x_TND);
  }

  at::Tensor attend() override {
    KeyPlan plan = this->plan();
    state_->pairs = pairs_of(plan);
    at::Tensor out_TND;
    {
      const at::NoGradGuard no_grad;
      const TimelineSpan span(context_.step->timeline, "attention", "forward", context_.micro_batch,
                              state_->pairs);
      out_TND = forward(std::move(plan));
    }
    std::vector<at::Tensor> inputs(inputs_.begin(), inputs_.end());
    if (owner_.sinks.present()) inputs.push_back(owner_.sinks.value);
    return custom_gradient(inputs, out_TND,
                           [state = state_, keys = keys_, inner = owner_.inner,
                            async = owner_.async, timeline = context_.step->timeline,
                            micro_batch = context_.micro_batch](const at::Tensor& grad) {
                             const TimelineSpan span(timeline, "attention", "backward", micro_batch,
                                                     state->pairs);
                             return backward(*state, *keys, inner, async, grad);
                           });
  }

 private:
  at::Tensor forward(KeyPlan plan) {
    State& s = *state_;
    s.q = exchanges_[0].finish();
    s.k = exchanges_[1].finish();
    s.v = exchanges_[2].finish();
    s.scores = owner_.scores();
    if (s.scores.sinks.defined()) {
      const int64_t here = s.q.size(2);
      s.sinks_type = s.scores.sinks.scalar_type();
      s.sinks = s.scores.sinks.detach()
                    .narrow(0, owner_.inner.rank() * here, here)
                    .to(accumulation_type(s.q.scalar_type()));
      s.scores.sinks = at::Tensor();
    }
    keys_ = owner_.keys(std::move(plan), s.k);
    AttentionScores with_sinks = s.scores;
    with_sinks.sinks = s.sinks;
    BlockAttention attention(s.q, s.v.size(-1), std::move(with_sinks));
    const bool watches = wants_max_logits(context_);
    if (watches) attention.keep_largest();
    keys_->forward(s.k, s.v, attention);
    if (watches) {
      const int64_t here = s.q.size(2);
      record_max_logits(attention.largest(), owner_.inner.rank() * here, s.heads[0], owner_.layer,
                        context_);
    }
    s.out = attention.out().to(s.q.scalar_type());
    s.lse = attention.lse();
    return heads_to_sequence(s.out, s.heads[0], owner_.inner).finish();
  }

  static std::vector<at::Tensor> backward(State& s, KeyValues& keys, const ProcessGroup& inner,
                                          bool async, const at::Tensor& grad) {
    const at::Tensor grad_out = sequence_to_heads(grad, s.q.size(0), inner).finish();
    const auto options = s.q.options().dtype(accumulation_type(s.q.scalar_type()));
    at::Tensor dq = at::zeros(s.q.sizes(), options);
    at::Tensor dk = at::zeros(s.k.sizes(), options);
    at::Tensor dv = at::zeros(s.v.sizes(), options);
    keys.backward({grad_out, s.q, s.k, s.v, s.out, s.lse, s.scores}, dq, dk, dv);
    const std::array<at::Tensor, 3> grads{dq, dk, dv};
    std::vector<at::Tensor> result(3);
    for (const size_t i :
         {size_t{2}, size_t{1}, size_t{0}}) {  // the order in which they are needed
      s.returning[i] = heads_to_sequence(grads[i].to(s.q.scalar_type()), s.heads[i], inner);
    }
    for (size_t i = 0; i < 3; ++i) {
      if (async && inner.size() > 1) {
        const HeadExchange& e = s.returning[i];
        const int64_t tokens = grad.size(0);
        result[i] = at::empty({tokens, e.heads, e.received.size(-1)}, s.q.options());  // not read
      } else {
        result[i] = s.returning[i].finish();
      }
    }
    if (s.sinks.defined()) {
      result.push_back(gradient_of_sinks(s, grad_out, inner).to(s.sinks_type));
    }
    s.q = s.k = s.v = s.out = s.lse = at::Tensor();
    return result;
  }

  // Query-key pairs of a micro-batch that this rank computes, for one head of the layer on average:
  // it computes all pairs of its group of neighbours, but only for its share of the heads.
  int64_t pairs_of(const KeyPlan& plan) const {
    int64_t pairs = 0;
    for (const auto& blocks : plan.mine) {
      const bool of_all_rows = !blocks.empty() && blocks.front().row < 0;
      pairs += visible_pairs(blocks, owner_.window) * (of_all_rows ? context_.rows : 1);
    }
    return pairs / owner_.inner.size();
  }

  // Blocks of this rank's queries with the keys of every group of neighbours.
  KeyPlan plan() const {
    const int64_t inner = owner_.inner.size();
    const auto me = static_cast<size_t>(owner_.outer.rank());
    const auto rows = static_cast<int64_t>(context_.pieces.size());
    const bool packed = !context_.document_ends.empty();
    bool alike = !packed;
    for (const auto& pieces : context_.pieces) alike &= pieces == context_.pieces.front();
    const std::vector<int64_t> whole{context_.seq_length};
    KeyPlan plan;
    plan.mine.resize(static_cast<size_t>(owner_.outer.size()));
    plan.of_mine.resize(plan.mine.size());
    for (int64_t row = 0; row < (alike ? 1 : rows); ++row) {
      const auto pieces = outer_pieces(context_.pieces[static_cast<size_t>(row)], inner);
      const auto& ends = packed ? context_.document_ends[static_cast<size_t>(row)] : whole;
      for (size_t peer = 0; peer < pieces.size(); ++peer) {
        for (const VisibleBlock& b :
             plan_blocks(pieces[me], pieces[peer], ends, alike ? -1 : row, owner_.window)) {
          plan.mine[peer].push_back(b);
        }
        plan.of_mine[peer] =
            plan.of_mine[peer] ||
            !plan_blocks(pieces[peer], pieces[me], ends, row, owner_.window).empty();
      }
    }
    return plan;
  }

  const ContextAttention& owner_;
  const LayerContext& context_;
  std::shared_ptr<State> state_;
  std::array<HeadExchange, 3> exchanges_;
  std::array<at::Tensor, 3> inputs_;
  std::shared_ptr<KeyValues> keys_;
};

}  // namespace

std::shared_ptr<KeyValues> ContextAttention::keys(KeyPlan plan, const at::Tensor& k) const {
  return make_key_exchange(std::move(plan), outer, exchange, k);
}

std::unique_ptr<AttentionCall> ContextAttention::begin(const LayerContext& context) {
  TESSERA_CHECK_EQ(static_cast<int64_t>(context.pieces.size()), context.rows);
  return std::make_unique<ContextCall>(*this, context);
}

}  // namespace tessera
