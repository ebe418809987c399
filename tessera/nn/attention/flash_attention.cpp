#include "tessera/nn/attention/flash_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "tessera/base/error.h"
#include "tessera/nn/flash/functions.h"
#include "tessera/nn/kernels/kernel_rows.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {
namespace {

using namespace kernels::flash;

at::Tensor dense_heads(const at::Tensor& x) { return x.stride(-1) == 1 ? x : x.contiguous(); }

template <typename T>
Heads<const T> const_heads(const at::Tensor& x) {
  return {static_cast<const T*>(x.const_data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
}
template <typename T>
Heads<T> mutable_heads(const at::Tensor& x) {
  TESSERA_CHECK(x.dim() == 3 || x.stride(3) == 1, "heads that are written must be dense");
  return {static_cast<T*>(x.mutable_data_ptr()), x.stride(0), x.stride(1), x.stride(2)};
}

Sizes sizes_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  TESSERA_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "heads ", q.size(1), ", kv heads ",
                k.size(1));
  TESSERA_CHECK_EQ(q.size(3), k.size(3), "sizes of queries and keys");
  return {q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)};
}

Scores scores_of(const AttentionScores& scores) {
  TESSERA_CHECK(scores.scale > 0, "scale of the scores ", scores.scale);
  return {scores.scale, scores.soft_cap};
}

Mask mask_of(const AttentionScores& scores, const FlashPlaces& places) {
  Mask mask{places.causal, places.first_query, places.first_key, scores.window, nullptr};
  if (places.document_begins.defined()) {
    TESSERA_CHECK(places.document_begins.is_contiguous(), "begins of documents");
    mask.document_begins = places.document_begins.const_data_ptr<int64_t>();
  }
  return mask;
}

// f(begin, end, room) over tasks, shared among libtorch's threads where that pays. `work`:
// multiply-adds of all tasks, about.
template <typename F>
void share(int64_t tasks, int64_t work, int64_t room_bytes, const F& f) {
  constexpr int64_t kWorkOfAThread = int64_t{1} << 20;
  const int64_t least = std::max<int64_t>(1, kWorkOfAThread / std::max<int64_t>(1, work / tasks));
  at::parallel_for(0, tasks, least, [&](int64_t begin, int64_t end) {
    constexpr std::align_val_t kAligned{64};
    const auto release = [](std::byte* room) { ::operator delete(room, kAligned); };
    const std::unique_ptr<std::byte, decltype(release)> room(
        static_cast<std::byte*>(::operator new(static_cast<size_t>(room_bytes), kAligned)),
        release);
    f(begin, end, room.get());
  });
}

int64_t work_of(const Sizes& s) {
  return s.samples * s.heads * s.queries * s.keys * (s.size + s.value_size);
}

// [N] in the type of sums, or undefined.
at::Tensor wide_sinks(const AttentionScores& scores, at::ScalarType wide) {
  return scores.sinks.defined() ? scores.sinks.to(wide).contiguous() : at::Tensor();
}

// Returns the largest scores [B, N], if asked for.
at::Tensor forward(const at::Tensor& q_any, const at::Tensor& k_any, const at::Tensor& v_any,
                   const AttentionScores& scores, const FlashPlaces& places, const at::Tensor& out,
                   const at::Tensor& lse, bool with_largest, bool merge) {
  const at::IntArrayRef sizes = lse.sizes();  // [B, N, L]
  at::Tensor largest;
  if (with_largest) {
    largest = at::full({sizes[0], sizes[1], std::max<int64_t>(1, query_blocks(sizes[2]))},
                       -std::numeric_limits<double>::infinity(), lse.options());
  }
  if (lse.numel() == 0) return with_largest ? largest.amax(-1) : largest;
  const at::Tensor q = dense_heads(q_any), k = dense_heads(k_any), v = dense_heads(v_any);
  const at::Tensor sinks = wide_sinks(scores, lse.scalar_type());
  dispatch_kernel(q.scalar_type(), [&]<typename T>(T) {
    using W = kernels::Wide<T>;
    ForwardProblem<T> f;
    f.sizes = sizes_of(q, k, v);
    f.mask = mask_of(scores, places);
    f.scores = scores_of(scores);
    f.q = const_heads<T>(q), f.k = const_heads<T>(k), f.v = const_heads<T>(v);
    if (sinks.defined()) f.sinks = sinks.const_data_ptr<W>();
    f.wide = merge;
    f.merge = merge;
    if (merge) {
      f.wide_out = mutable_heads<W>(out);
    } else {
      f.out = mutable_heads<T>(out);
    }
    f.lse = mutable_heads<W>(lse);
    if (largest.defined()) f.largest = largest.mutable_data_ptr<W>();
    const Functions<T>& functions = functions_of<T>(chosen_instruction_set());
    share(f.sizes.samples * f.sizes.heads * query_blocks(f.sizes.queries), work_of(f.sizes),
          functions.forward_room(f.sizes), [&](int64_t begin, int64_t end, std::byte* room) {
            functions.forward(f, begin, end, room);
          });
  });
  return with_largest ? largest.amax(-1) : largest;
}

}  // namespace

FlashResult flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionScores& scores, const FlashPlaces& places,
                          bool with_largest) {
  const auto wide = q.options().dtype(accumulation_type(q.scalar_type()));
  const int64_t samples = q.size(0), heads = q.size(1), queries = q.size(2);
  FlashResult result{at::empty({samples, queries, heads, v.size(3)}, q.options()).transpose(1, 2),
                     at::empty({samples, heads, queries}, wide),
                     {}};
  result.largest = forward(q, k, v, scores, places, result.out, result.lse, with_largest,
                           /*merge=*/false);
  return result;
}

at::Tensor flash_merge(const at::Tensor& out, const at::Tensor& lse, const at::Tensor& q,
                       const at::Tensor& k, const at::Tensor& v, const AttentionScores& scores,
                       const FlashPlaces& places, bool with_largest) {
  TESSERA_CHECK(!scores.sinks.defined(), "sinks count once");
  return forward(q, k, v, scores, places, out, lse, with_largest, /*merge=*/true);
}

at::Tensor flash_backward(const at::Tensor& grad_out_any, const at::Tensor& q_any,
                          const at::Tensor& k_any, const at::Tensor& v_any, const at::Tensor& out,
                          const at::Tensor& lse, const AttentionScores& scores,
                          const FlashPlaces& places, const at::Tensor& dq, const at::Tensor& dk,
                          const at::Tensor& dv, bool add) {
  const at::Tensor q = dense_heads(q_any), k = dense_heads(k_any), v = dense_heads(v_any);
  const at::Tensor grad_out = dense_heads(grad_out_any), result = dense_heads(out);
  const at::Tensor sinks = wide_sinks(scores, lse.scalar_type());
  at::Tensor dsinks;
  if (sinks.defined()) dsinks = at::zeros({q.size(0), q.size(1)}, lse.options());
  if (lse.numel() == 0) {
    if (!add) {
      dk.zero_();
      dv.zero_();
    }
    return dsinks.defined() ? dsinks.sum(0) : dsinks;
  }
  dispatch_kernel(q.scalar_type(), [&]<typename T>(T) {
    using W = kernels::Wide<T>;
    BackwardProblem<T> f;
    f.sizes = sizes_of(q, k, v);
    f.mask = mask_of(scores, places);
    f.scores = scores_of(scores);
    f.q = const_heads<T>(q), f.k = const_heads<T>(k), f.v = const_heads<T>(v);
    f.out = const_heads<T>(result), f.grad_out = const_heads<T>(grad_out);
    f.lse = const_heads<W>(lse);
    f.dq = mutable_heads<W>(dq), f.dk = mutable_heads<W>(dk), f.dv = mutable_heads<W>(dv);
    f.add = add;
    if (sinks.defined()) {
      f.sinks = sinks.const_data_ptr<W>();
      f.dsinks = dsinks.mutable_data_ptr<W>();
    }
    const Functions<T>& functions = functions_of<T>(chosen_instruction_set());
    share(f.sizes.samples * f.sizes.kv_heads, work_of(f.sizes), functions.backward_room(f.sizes),
          [&](int64_t begin, int64_t end, std::byte* room) {
            functions.backward(f, begin, end, room);
          });
  });
  return dsinks.defined() ? dsinks.sum(0) : dsinks;
}

}  // namespace tessera
