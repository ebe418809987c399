#include <iterator>

#include "tessera/planner/tapes/activation_tape.h"

namespace tessera {

std::vector<Work> ActivationTape::forward_of(const Item& item) const {
  const Operation& o = item.operation;
  if (!o.forward.empty()) return o.forward;
  if (o.view_of >= 0 && o.passes_gradient) return {};  // nothing moves
  double bytes = static_cast<double>(o.bytes > 0 ? o.bytes : gradient_[size_t(item.tensor)]);
  for (const Tensor input : o.inputs) {
    bytes += static_cast<double>(gradient_[static_cast<size_t>(input)]);
  }
  return {elements_work(bytes)};
}

std::vector<Work> ActivationTape::backward_of(const Item& item) const {
  const Operation& o = item.operation;
  if (!o.backward.empty()) return o.backward;
  if (o.passes_gradient || o.makes_gradients) return {};
  double bytes = static_cast<double>(gradient_[static_cast<size_t>(item.tensor)]);
  for (const Tensor input : o.inputs) {
    bytes += static_cast<double>(gradient_[static_cast<size_t>(input)]);
  }
  for (const Tensor saved : o.saved) {
    bytes += static_cast<double>(bytes_[static_cast<size_t>(root(saved))]);
  }
  return {elements_work(bytes)};
}

CallWork ActivationTape::work(bool recompute) const {
  CallWork work;
  const auto add = [](std::vector<Work>& to, const std::vector<Work>& more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  // What runs again: the whole call or what lies in a checkpoint, without what is kept inside.
  bool inside = recompute;
  bool kept = false;
  for (const Item& item : items_) {
    switch (item.kind) {
      case Item::Kind::kBegin: inside = true; break;
      case Item::Kind::kEnd: inside = recompute; break;
      case Item::Kind::kBeginKept: kept = true; break;
      case Item::Kind::kEndKept: kept = false; break;
      case Item::Kind::kRelease:
      case Item::Kind::kEndScope: break;
      case Item::Kind::kOperation:
        add(work.forward, forward_of(item));
        if (inside && !kept) add(work.backward, forward_of(item));
        add(work.backward, backward_of(item));
    }
  }
  return work;
}

}  // namespace tessera
