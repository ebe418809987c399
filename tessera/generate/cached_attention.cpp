#include "tessera/generate/cached_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "tessera/base/error.h"
#include "tessera/nn/attention/flash_attention.h"

// N heads, M kv heads, D and E size of a key and of a value.

namespace tessera {
namespace {

class CachedCall : public AttentionCall {
 public:
  explicit CachedCall(CachedAttention& core) : core_(core) {}

  void offer(AttentionInput which, at::Tensor x_TND) override {
    inputs_[static_cast<size_t>(which)] = std::move(x_TND);
  }

  at::Tensor attend() override {
    const auto& [q, k, v] = inputs_;
    if (core_.spans().size() == 1 && core_.spans()[0].count == q.size(0)) {
      return core_.attend(core_.spans()[0], q, k, v);
    }
    at::Tensor out = at::zeros({q.size(0), q.size(1), v.size(2)}, q.options());
    for (const RowSpan& span : core_.spans()) {
      const auto part = [&](const at::Tensor& x) { return x.narrow(0, span.first, span.count); };
      part(out).copy_(core_.attend(span, part(q), part(k), part(v)));
    }
    return out;
  }

 private:
  CachedAttention& core_;
  std::array<at::Tensor, 3> inputs_;
};

// [count, heads, size] as [1, heads, count, size]: a view.
at::Tensor by_head(const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); }

}  // namespace

CachedAttention::CachedAttention(std::unique_ptr<CoreAttention> plain, const RowSpans& spans)
    : plain_(std::move(plain)), spans_(spans) {}

std::unique_ptr<AttentionCall> CachedAttention::begin(const LayerContext&) {
  return std::make_unique<CachedCall>(*this);
}

void CachedAttention::append(Kept& kept, const at::Tensor& k, const at::Tensor& v) const {
  const int64_t added = k.size(0);
  // No later query sees what lies before the window of the first new one.
  const int64_t window = plain_->window;
  const int64_t needed = window > 0 ? std::min(kept.count, window - 1) : kept.count;
  const int64_t room = kept.keys.defined() ? kept.keys.size(1) : 0;
  if (kept.count + added > room) {
    const int64_t larger = std::max<int64_t>(2 * (needed + added), 64);
    const auto moved = [&](const at::Tensor& old, const at::Tensor& x) {
      at::Tensor next = at::empty({x.size(1), larger, x.size(2)}, x.options());
      if (needed > 0) {
        next.narrow(1, 0, needed).copy_(old.narrow(1, kept.count - needed, needed));
      }
      return next;
    };
    kept.keys = moved(kept.keys, k);
    kept.values = moved(kept.values, v);
    kept.first += kept.count - needed;
    kept.count = needed;
  }
  kept.keys.narrow(1, kept.count, added).copy_(k.transpose(0, 1));
  kept.values.narrow(1, kept.count, added).copy_(v.transpose(0, 1));
  kept.count += added;
}

at::Tensor CachedAttention::attend(const RowSpan& span, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v) {
  Kept& kept = kept_[span.row];
  append(kept, k, v);
  TESSERA_CHECK_EQ(kept.first + kept.count, span.past + span.count, "row ", span.row);
  FlashPlaces places;
  places.first_query = span.past;
  places.first_key = kept.first;
  const FlashResult result =
      flash_forward(by_head(q), kept.keys.narrow(1, 0, kept.count).unsqueeze(0),
                    kept.values.narrow(1, 0, kept.count).unsqueeze(0), plain_->scores(), places);
  return result.out.squeeze(0).transpose(0, 1);
}

int64_t CachedAttention::bytes() const {
  int64_t bytes = 0;
  for (const auto& [row, kept] : kept_) {
    bytes += static_cast<int64_t>(kept.keys.nbytes() + kept.values.nbytes());
  }
  return bytes;
}

}  // namespace tessera
