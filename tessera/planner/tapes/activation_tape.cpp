#include "tessera/planner/tapes/activation_tape.h"

#include <algorithm>
#include <map>

#include "tessera/base/error.h"

namespace tessera {

// One pass over the items, forward or backward, with the bytes that live at each time.
class ActivationTape::Run {
 public:
  explicit Run(const ActivationTape& tape) : tape_(tape), holders_(tape.bytes_.size()) {
    holders_[0] = 1;  // the input, which the caller counts
  }

  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  int64_t weight_gradients() const { return weights_at_peak_; }
  void start_peak() { peak_ = live_; }

  void forward(size_t begin, size_t end, bool keep) {
    for (size_t i = begin; i < end; ++i) {
      const Item& item = tape_.items_[i];
      switch (item.kind) {
        case Item::Kind::kOperation: run(item, keep); break;
        case Item::Kind::kRelease: let_go(item.tensor); break;
        case Item::Kind::kEndScope: let_go_of_all_but(item.tensor); break;
        case Item::Kind::kBegin: {
          const size_t close = end_of(i, Item::Kind::kEnd);
          const std::vector<Tensor> outer = std::move(scope_);
          scope_.clear();
          forward(i + 1, close, /*keep=*/false);
          const Tensor result = tape_.items_[close].tensor;
          let_go_of_all_but(result);
          scope_.insert(scope_.begin(), outer.begin(), outer.end());
          if (keep) {
            for (const Tensor tensor : inputs_of(i, close)) hold(tensor);
          }
          i = close;
          break;
        }
        case Item::Kind::kBeginKept: {
          const size_t close = end_of(i, Item::Kind::kEndKept);
          run_kept(i, close, keep);
          i = close;
          break;
        }
        case Item::Kind::kEnd:
        case Item::Kind::kEndKept: break;
      }
    }
  }

  // The first time (`again` false) with all that its backward needs; the second time its result is
  // there.
  void run_kept(size_t begin, size_t end, bool again) {
    const Tensor result = tape_.items_[end].tensor;
    if (again) {
      hold(result);
      scope_.push_back(result);
      return;
    }
    const std::vector<Tensor> outer = std::move(scope_);
    scope_.clear();
    forward(begin + 1, end, /*keep=*/true);
    let_go_of_all_but(result);
    scope_.insert(scope_.begin(), outer.begin(), outer.end());
    for (const Tensor tensor : inputs_of(begin, end)) hold(tensor);
    hold(result);
    if (!tape_.items_[begin].copied) return;
    const int64_t bytes = tape_.bytes_[static_cast<size_t>(tape_.root(result))];
    add_live(bytes);  // what goes on is the copy, as long as the pass holds it
    copies_.emplace(result, bytes);
  }

  // The output's gradient is there, and the caller's.
  void backward(Tensor output) {
    gradients_[output] = share(0);
    backward(0, tape_.items_.size());
  }

 private:
  struct Gradient {
    int64_t bytes;
    int users;
  };
  using GradientId = size_t;

  void add_live(int64_t bytes) {
    live_ += bytes;
    see(live_, weights_);
  }
  void see(int64_t live, int64_t weights) {
    if (live <= peak_) return;
    peak_ = live;
    weights_at_peak_ = weights;
  }
  void hold(Tensor tensor) {
    const auto at = static_cast<size_t>(tape_.root(tensor));
    if (holders_[at]++ == 0) add_live(tape_.bytes_[at]);
  }
  void drop(Tensor tensor) {
    const auto at = static_cast<size_t>(tape_.root(tensor));
    if (const auto first = first_.find(static_cast<Tensor>(at));
        first != first_.end() && first->second > 0 && in_kept_) {
      if (--first->second == 0) live_ -= tape_.bytes_[at];
      return;
    }
    TESSERA_CHECK(holders_[at] > 0, "a tensor of a tape is dropped twice");
    if (--holders_[at] == 0) live_ -= tape_.bytes_[at];
  }
  void let_go(Tensor tensor) {
    const auto found = std::find(scope_.begin(), scope_.end(), tensor);
    TESSERA_CHECK(found != scope_.end(), "a tensor of a tape is released twice");
    scope_.erase(found);
    end_copy(tensor);
    drop(tensor);
  }
  void end_copy(Tensor tensor) {
    const auto copy = copies_.find(tensor);
    if (copy == copies_.end()) return;
    live_ -= copy->second;
    copies_.erase(copy);
  }
  void let_go_of_all_but(Tensor kept) {
    for (const Tensor tensor : scope_) {
      if (tensor == kept) continue;
      end_copy(tensor);
      drop(tensor);
    }
    const bool there = std::find(scope_.begin(), scope_.end(), kept) != scope_.end();
    scope_.clear();
    if (there) scope_.push_back(kept);
  }

  void run(const Item& item, bool keep) {
    const Operation& o = item.operation;
    hold(item.tensor);
    scope_.push_back(item.tensor);
    add_live(o.keeps + o.forward_extra);
    live_ -= o.forward_extra + (keep ? 0 : o.keeps);
    if (!keep) return;
    for (const Tensor tensor : o.saved) hold(tensor);
    if (o.saves_result) hold(item.tensor);
  }

  size_t end_of(size_t begin, Item::Kind kind) const {
    size_t at = begin;
    while (tape_.items_[at].kind != kind) ++at;
    return at;
  }
  size_t begin_of(size_t end, Item::Kind kind) const {
    size_t at = end;
    while (tape_.items_[at].kind != kind) --at;
    return at;
  }

  // What the operations between read and did not make.
  std::vector<Tensor> inputs_of(size_t begin, size_t end) const {
    std::vector<Tensor> made, inputs;
    for (size_t i = begin + 1; i < end; ++i) {
      const Item& item = tape_.items_[i];
      if (item.kind != Item::Kind::kOperation) continue;
      for (const Tensor input : item.operation.inputs) {
        const auto is = [&](const std::vector<Tensor>& all) {
          return std::find(all.begin(), all.end(), input) != all.end();
        };
        if (!is(made) && !is(inputs)) inputs.push_back(input);
      }
      made.push_back(item.tensor);
    }
    return inputs;
  }

  GradientId share(int64_t bytes) {
    all_.push_back({bytes, 1});
    add_live(bytes);
    return all_.size() - 1;
  }
  void give_up(GradientId id) {
    if (--all_[id].users == 0) live_ -= all_[id].bytes;
  }
  void arrive(Tensor tensor, GradientId id) {
    const auto [found, first] = gradients_.try_emplace(tensor, id);
    if (first) return;
    const GradientId sum = share(tape_.gradient_[static_cast<size_t>(tensor)]);
    give_up(found->second);
    give_up(id);
    found->second = sum;
  }

  void backward(size_t begin, size_t end) {
    for (size_t i = end; i-- > begin;) {
      const Item& item = tape_.items_[i];
      if (item.kind == Item::Kind::kOperation) run_back(item);
      if (item.kind == Item::Kind::kEndKept) {
        const size_t open = begin_of(i, Item::Kind::kBeginKept);
        in_kept_ = true;
        backward(open + 1, i);
        for (const Tensor tensor : inputs_of(open, i)) drop(tensor);
        drop(item.tensor);
        in_kept_ = false;
        i = open;
      }
      if (item.kind != Item::Kind::kEnd) continue;
      const size_t open = begin_of(i, Item::Kind::kBegin);
      run_again(open, i);
      i = open;
    }
  }

  void run_back(const Item& item) {
    const Operation& o = item.operation;
    const auto of_result = gradients_.find(item.tensor);
    TESSERA_CHECK(of_result != gradients_.end(), "a result of a tape is not used");
    const GradientId result = of_result->second;
    gradients_.erase(of_result);
    if (o.makes_gradients) live_ -= o.keeps;
    weights_ += o.weight_gradient;
    add_live(o.weight_gradient);
    for (const Tensor input : o.inputs) {
      if (o.passes_gradient) {
        ++all_[result].users;
        arrive(input, result);
      } else {
        arrive(input, share(tape_.gradient_[static_cast<size_t>(input)]));
      }
    }
    add_live(o.backward_extra);
    live_ -= o.backward_extra + (o.makes_gradients ? 0 : o.keeps);
    give_up(result);
    for (const Tensor tensor : o.saved) drop(tensor);
    if (o.saves_result) drop(item.tensor);
  }

  void run_again(size_t begin, size_t end) {
    Run inner(tape_);
    inner.holders_ = holders_;
    inner.live_ = live_;
    inner.weights_ = weights_;
    // What was made before is there; what is made again is new.
    for (size_t i = begin + 1; i < end; ++i) {
      const Item& item = tape_.items_[i];
      if (item.kind == Item::Kind::kBeginKept) i = end_of(i, Item::Kind::kEndKept);
      if (item.kind == Item::Kind::kOperation && item.operation.view_of < 0) {
        int& holders = inner.holders_[static_cast<size_t>(item.tensor)];
        if (holders > 0 && tape_.keeps_any()) inner.first_[item.tensor] = holders;
        holders = 0;
      }
    }
    inner.forward(begin + 1, end, /*keep=*/true);
    inner.let_go_of_all_but(tape_.items_[end].tensor);
    inner.gradients_ = gradients_;
    inner.all_ = all_;
    inner.backward(begin + 1, end);
    see(inner.peak_, inner.weights_at_peak_);
    weights_ = inner.weights_;
    for (const Tensor tensor : inner.scope_) inner.drop(tensor);
    gradients_ = inner.gradients_;
    all_ = inner.all_;
    live_ = inner.live_;
    for (const Tensor tensor : inputs_of(begin, end)) drop(tensor);
  }

  const ActivationTape& tape_;
  std::vector<int> holders_;
  std::vector<Tensor> scope_;    // what the forward holds
  std::map<Tensor, int> first_;  // holders of what the first pass made and a kept part still needs
  std::map<Tensor, int64_t> copies_;  // of results of kept parts, in use
  bool in_kept_ = false;              // the backward is in such a part
  std::vector<Gradient> all_;
  std::map<Tensor, GradientId> gradients_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
  int64_t weights_ = 0;  // gradients of weights, in live_
  int64_t weights_at_peak_ = 0;
};

ActivationTape::ActivationTape(int64_t input_bytes)
    : bytes_{0}, gradient_{input_bytes}, view_of_{-1} {}

ActivationTape::Tensor ActivationTape::root(Tensor tensor) const {
  while (view_of_[static_cast<size_t>(tensor)] >= 0) tensor = view_of_[static_cast<size_t>(tensor)];
  return tensor;
}

ActivationTape::Tensor ActivationTape::add(Operation operation) {
  const auto result = static_cast<Tensor>(bytes_.size());
  bytes_.push_back(operation.bytes);
  gradient_.push_back(operation.gradient >= 0 ? operation.gradient : operation.bytes);
  view_of_.push_back(operation.view_of);
  items_.push_back({Item::Kind::kOperation, std::move(operation), result});
  return result;
}

void ActivationTape::release(Tensor tensor) {
  items_.push_back({Item::Kind::kRelease, {}, tensor});
}
void ActivationTape::end_scope(Tensor kept) { items_.push_back({Item::Kind::kEndScope, {}, kept}); }
void ActivationTape::begin_checkpoint() { items_.push_back({Item::Kind::kBegin, {}, -1}); }
void ActivationTape::end_checkpoint(Tensor result) {
  items_.push_back({Item::Kind::kEnd, {}, result});
}
void ActivationTape::begin_kept(bool copied) {
  items_.push_back({Item::Kind::kBeginKept, {}, -1, copied});
}
void ActivationTape::end_kept(Tensor result) {
  items_.push_back({Item::Kind::kEndKept, {}, result});
}

bool ActivationTape::keeps_any() const {
  return std::ranges::any_of(items_,
                             [](const Item& item) { return item.kind == Item::Kind::kBeginKept; });
}

CallMemory ActivationTape::measure(Tensor output, bool recompute) const {
  if (recompute && keeps_any()) {  // the call is one checkpoint with parts that do not run again
    ActivationTape whole = *this;
    whole.items_.insert(whole.items_.begin(), {Item::Kind::kBegin, {}, -1});
    whole.end_checkpoint(output);
    CallMemory memory = whole.measure(output, /*recompute=*/false);
    memory.backward_peak -= memory.output;  // made again in place of the first
    return memory;
  }
  CallMemory memory;
  memory.input = gradient_[0];
  memory.output = bytes_[static_cast<size_t>(root(output))];
  Run run(*this);
  run.forward(0, items_.size(), /*keep=*/true);
  memory.kept = run.live() - memory.output;
  const int64_t made = run.peak();
  run.start_peak();
  run.backward(output);
  memory.forward_peak = made;
  memory.backward_peak = run.peak() - memory.kept - memory.output;
  memory.weight_gradients = run.weight_gradients();
  if (!recompute) return memory;
  Run once(*this);
  once.forward(0, items_.size(), /*keep=*/false);
  memory.forward_peak = once.peak();
  memory.backward_peak += memory.kept;
  memory.kept = 0;
  if (made - memory.output > memory.backward_peak) {
    memory.backward_peak = made - memory.output;
    memory.weight_gradients = 0;
  }
  return memory;
}

}  // namespace tessera
