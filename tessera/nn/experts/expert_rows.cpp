#include "tessera/nn/experts/expert_rows.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <type_traits>

#include "tessera/base/error.h"
#include "tessera/nn/scalar_type.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename F>
void over_tokens(int64_t tokens, int64_t elements_of_one, const F& f) {
  constexpr int64_t kElementsOfATask = 1 << 15;
  at::parallel_for(
      0, tokens, std::max<int64_t>(1, kElementsOfATask / std::max<int64_t>(1, elements_of_one)), f);
}

// y[t] = sum over m of weights[t, m] rows[places[t, m]]; weights null: ones.
template <typename T>
void sum_rows(const T* rows, const int64_t* places, const Sum<T>* weights, int64_t m, int64_t width,
              T* y, int64_t tokens) {
  over_tokens(tokens, m * width, [=](int64_t begin, int64_t end) {
    std::vector<Sum<T>> sums(static_cast<size_t>(width));
    for (int64_t t = begin; t < end; ++t) {
      std::fill(sums.begin(), sums.end(), Sum<T>(0));
      for (int64_t j = 0; j < m; ++j) {
        const int64_t place = places[t * m + j];
        if (place < 0) continue;
        const T* row = rows + place * width;
        const Sum<T> weight = weights == nullptr ? Sum<T>(1) : weights[t * m + j];
        for (int64_t i = 0; i < width; ++i) {
          sums[static_cast<size_t>(i)] += weight * static_cast<Sum<T>>(row[i]);
        }
      }
      T* out = y + t * width;
      for (int64_t i = 0; i < width; ++i) out[i] = static_cast<T>(sums[static_cast<size_t>(i)]);
    }
  });
}

// The derivative of the above: drows[places[t, m]] = weights[t, m] dy[t], dweights[t, m] = <dy[t],
// rows[places[t, m]]> (where it is wanted).
template <typename T>
void sum_rows_backward(const T* dy, const T* rows, const int64_t* places, const Sum<T>* weights,
                       int64_t m, int64_t width, T* drows, Sum<T>* dweights, int64_t tokens) {
  over_tokens(tokens, m * width, [=](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const T* grad = dy + t * width;
      for (int64_t j = 0; j < m; ++j) {
        const int64_t place = places[t * m + j];
        if (dweights != nullptr) dweights[t * m + j] = 0;
        if (place < 0) continue;
        const Sum<T> weight = weights == nullptr ? Sum<T>(1) : weights[t * m + j];
        T* out = drows + place * width;
        for (int64_t i = 0; i < width; ++i) {
          out[i] = static_cast<T>(weight * static_cast<Sum<T>>(grad[i]));
        }
        if (dweights == nullptr) continue;
        const T* row = rows + place * width;
        constexpr int64_t kLanes = 8;
        Sum<T> lanes[kLanes] = {};
        int64_t i = 0;
        for (; i + kLanes <= width; i += kLanes) {
          for (int64_t lane = 0; lane < kLanes; ++lane) {
            lanes[lane] += static_cast<Sum<T>>(grad[i + lane]) * static_cast<Sum<T>>(row[i + lane]);
          }
        }
        Sum<T> dot = 0;
        for (; i < width; ++i) dot += static_cast<Sum<T>>(grad[i]) * static_cast<Sum<T>>(row[i]);
        for (const Sum<T> lane : lanes) dot += lane;
        dweights[t * m + j] = dot;
      }
    }
  });
}

#define TESSERA_DISPATCH_ROWS(type, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, type, "expert rows", [&] { __VA_ARGS__ })

at::Tensor summed(const at::Tensor& rows_RW, const at::Tensor& places, const at::Tensor& weights) {
  const int64_t tokens = places.size(0);
  const int64_t m = places.size(1);
  const int64_t width = rows_RW.size(1);
  if (!rows_RW.device().is_cpu()) {
    // One row of zeros stands for those that are not there.
    const at::Tensor with_none = at::cat({rows_RW, rows_RW.new_zeros({1, width})});
    at::Tensor picked =
        with_none.index_select(0, at::where(places < 0, rows_RW.size(0), places).flatten())
            .view({tokens, m, width})
            .to(accumulation_type(rows_RW.scalar_type()));
    if (weights.defined()) picked = picked * weights.unsqueeze(2);
    return picked.sum(1).to(rows_RW.scalar_type());
  }
  const at::Tensor rows = rows_RW.contiguous();
  at::Tensor y = at::empty({tokens, width}, rows.options());
  TESSERA_DISPATCH_ROWS(
      rows.scalar_type(),
      sum_rows<scalar_t>(rows.const_data_ptr<scalar_t>(), places.const_data_ptr<int64_t>(),
                         weights.defined() ? weights.const_data_ptr<Sum<scalar_t>>() : nullptr, m,
                         width, y.mutable_data_ptr<scalar_t>(), tokens););
  return y;
}

struct SpreadRows : torch::autograd::Function<SpreadRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TW, const at::Tensor& source,
                            const at::Tensor& places) {
    ctx->save_for_backward({places});
    return x_TW.index_select(0, source);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    return {summed(grads[0], ctx->get_saved_variables()[0], {}), at::Tensor(), at::Tensor()};
  }
};

struct CombineRows : torch::autograd::Function<CombineRows> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& rows_RW,
                            const at::Tensor& places, const std::optional<at::Tensor>& given) {
    const at::Tensor weights = given.value_or(at::Tensor());
    ctx->save_for_backward({rows_RW, places, weights});
    return summed(rows_RW, places, weights);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor rows = saved[0].contiguous();
    const at::Tensor& places = saved[1];
    const at::Tensor& weights = saved[2];
    const at::Tensor dy = grads[0].contiguous();
    const int64_t width = rows.size(1);
    const bool weighted = weights.defined();
    if (!rows.device().is_cpu()) {
      const at::Tensor there = places.flatten().ge(0).nonzero().squeeze(1);
      const at::Tensor token = there.div(places.size(1), "floor");
      const at::Tensor place = places.flatten().index_select(0, there);
      const at::Tensor grad = dy.index_select(0, token);
      at::Tensor drows = at::empty_like(rows);
      at::Tensor dweights;
      if (weighted) {
        const at::Tensor w = weights.flatten().index_select(0, there).unsqueeze(1);
        drows.index_copy_(0, place, (grad * w).to(rows.scalar_type()));
        dweights = at::zeros_like(weights).flatten().index_copy(
            0, there, (grad.to(w.scalar_type()) * rows.index_select(0, place)).sum(1));
        dweights = dweights.view(places.sizes());
      } else {
        drows.index_copy_(0, place, grad);
      }
      return {drows, at::Tensor(), dweights};
    }
    at::Tensor drows = at::empty(rows.sizes(), rows.options());
    at::Tensor dweights = weighted ? at::empty(weights.sizes(), weights.options()) : at::Tensor();
    TESSERA_DISPATCH_ROWS(
        rows.scalar_type(),
        sum_rows_backward<scalar_t>(dy.const_data_ptr<scalar_t>(), rows.const_data_ptr<scalar_t>(),
                                    places.const_data_ptr<int64_t>(),
                                    weighted ? weights.const_data_ptr<Sum<scalar_t>>() : nullptr,
                                    places.size(1), width, drows.mutable_data_ptr<scalar_t>(),
                                    weighted ? dweights.mutable_data_ptr<Sum<scalar_t>>() : nullptr,
                                    places.size(0)););
    return {drows, at::Tensor(), dweights};
  }
};

}  // namespace

ExpertOrder order_by_expert(const at::Tensor& expert_ids, const Range& experts) {
  // A stable counting sort on the host, where the counts are needed anyway.
  const at::Tensor ids = expert_ids.to(at::kCPU).contiguous();
  const int64_t* id = ids.const_data_ptr<int64_t>();
  const int64_t choices = ids.numel();
  const int64_t k = ids.size(1);
  ExpertOrder order;
  order.counts.assign(static_cast<size_t>(experts.size()), 0);
  int64_t rows = 0;
  for (int64_t i = 0; i < choices; ++i) {
    if (id[i] < experts.begin || id[i] >= experts.end) continue;
    ++order.counts[static_cast<size_t>(id[i] - experts.begin)];
    ++rows;
  }
  std::vector<int64_t> next(order.counts.size());
  for (size_t e = 1; e < next.size(); ++e) next[e] = next[e - 1] + order.counts[e - 1];
  at::Tensor source = at::empty({rows}, ids.options());
  at::Tensor places = at::empty(ids.sizes(), ids.options());
  int64_t* token_of = source.mutable_data_ptr<int64_t>();
  int64_t* place_of = places.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < choices; ++i) {
    if (id[i] < experts.begin || id[i] >= experts.end) {
      place_of[i] = -1;
      continue;
    }
    const int64_t place = next[static_cast<size_t>(id[i] - experts.begin)]++;
    place_of[i] = place;
    token_of[place] = i / k;
  }
  order.source = source.to(expert_ids.device());
  order.places = places.to(expert_ids.device());
  return order;
}

at::Tensor spread_rows(const at::Tensor& x_TW, const at::Tensor& source, const at::Tensor& places) {
  return SpreadRows::apply(x_TW, source, places);
}

at::Tensor combine_rows(const at::Tensor& rows_RW, const at::Tensor& places,
                        const at::Tensor& weights) {
  // An undefined tensor is no argument of a function; an absent one is.
  std::optional<at::Tensor> given;
  if (weights.defined()) {
    given = weights.to(accumulation_type(rows_RW.scalar_type())).contiguous();
  }
  return CombineRows::apply(rows_RW, places, given);
}

}  // namespace tessera
