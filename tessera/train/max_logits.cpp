#include "tessera/train/max_logits.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace tessera {

bool reports_max_logits(const Config& config, int64_t step) {
  return std::ranges::any_of(config.callbacks, [&](const CallbackConfig& callback) {
    return callback.type == "MaxLogitsMonitor" && callback.enable_logging &&
           step % callback.step_interval == 0;
  });
}

at::Tensor max_logits_of_world(const Sinks& sinks, const ModelConfig& model,
                               const DeviceMesh& mesh) {
  const int64_t layers = model.num_hidden_layers + model.num_nextn_predict_layers;
  at::Tensor all = at::full({layers, model.num_attention_heads},
                            -std::numeric_limits<double>::infinity(), at::kDouble);
  for (const auto& [key, here_H] : sinks.max_logits) {
    // Tensor parallelism deals out the query heads in equal runs.
    const int64_t heads = here_H.size(0);
    at::Tensor place = all[key.first].narrow(0, mesh.coordinate(Axis::kTp) * heads, heads);
    at::maximum_out(place, place, here_H.to(at::kCPU, at::kDouble));
  }
  mesh[Axis::kWorld].all_reduce({all}, ReduceOp::kMax).wait();
  return all;
}

}  // namespace tessera
