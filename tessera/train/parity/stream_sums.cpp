#include "tessera/train/parity/stream_sums.h"

#include <ATen/ATen.h>

#include "tessera/comm/device_mesh.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {
namespace {

// In [0.5, 1.5), unlike for neighbours and for the same place of other samples.
at::Tensor token_weights(const LayerContext& context) {
  const auto [begin, end] = context.residual_tokens;
  const at::Tensor key =
      context.sample_ids.slice(0, begin, end) * 7919 + context.in_sample.slice(0, begin, end) * 31;
  return key.remainder(1009).to(at::kDouble) / 1009.0 + 0.5;
}

double weighted_squares(const at::Tensor& x_TH, const LayerContext& context) {
  const at::NoGradGuard no_grad;
  const at::Tensor squares_T = x_TH.detach().to(at::kDouble).square().sum(1);
  return squares_T.dot(token_weights(context)).item<double>();
}

}  // namespace

std::string to_string(const StreamPlace& place) {
  const char* where = place.second == 0 ? "activations in front of layer "
                                        : "activations after the attention of layer ";
  return where + std::to_string(place.first);
}

void StreamSums::watch(ParallelModel& model, const DeviceMesh& mesh) {
  const auto watch_call = [this, rank = mesh.rank()](ModuleCall& call, const StreamPlace& place) {
    call.wrapper = [this, rank, place, inner = call.wrapper](
                       const ModuleCall& self, const Tensors& x, const LayerContext& context) {
      if (context.step->number == 0 && !context.recompute)
        add(place, rank, weighted_squares(x[0], context));
      return inner ? inner(self, x, context) : self.body(x, context);
    };
  };
  for (const auto& decoder : model.decoders) {
    for (DecoderLayer* layer : decoder->all_layers()) {
      watch_call(layer->first_of_attention(), {layer->index, 0});
      watch_call(layer->first_of_mlp(), {layer->index, 1});
    }
  }
}

void StreamSums::add(const StreamPlace& place, int rank, double sum) {
  const std::lock_guard lock(mutex_);
  sums_[place][rank] += sum;
}

std::map<StreamPlace, double> StreamSums::total() const {
  std::map<StreamPlace, double> totals;
  for (const auto& [place, of_ranks] : sums_) {
    for (const auto& [rank, sum] : of_ranks) totals[place] += sum;
  }
  return totals;
}

}  // namespace tessera
