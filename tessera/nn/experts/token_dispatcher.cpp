#include "tessera/nn/experts/token_dispatcher.h"

#include "tessera/nn/experts/expert_rows.h"

namespace tessera {

namespace {

struct LocalCall : DispatchCall {
  at::Tensor places;
  at::Tensor combine(const at::Tensor& rows_RH, const at::Tensor& weights) override {
    return combine_rows(rows_RH, places, weights);
  }
};

}  // namespace

std::unique_ptr<DispatchCall> TokenDispatcher::dispatch(const at::Tensor& x_TH,
                                                        const at::Tensor& expert_ids,
                                                        const at::Tensor& weights,
                                                        int64_t experts) {
  auto call = std::make_unique<LocalCall>();
  ExpertOrder order = order_by_expert(expert_ids, {0, experts});
  call->rows = spread_rows(x_TH, order.source, order.places);
  call->weights = weights;
  call->rows_of_expert = std::move(order.counts);
  call->places = std::move(order.places);
  return call;
}

}  // namespace tessera
