#pragma once

// The selection biases of the routers: moved by counts, not by gradients (Wang et al. 2024, arXiv
// 2408.15664), whole on every rank.

#include <ATen/core/Tensor.h>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/model_config.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// Adds a row to the model's table for the bias of every router of `decoder` that has one, and
/// moves it to the device of the mesh.
void add_router_biases(ParallelModel& model, Decoder& decoder, const ModelConfig& config,
                       const DeviceMesh& mesh);

/// Moves the biases by the counts of a step [layers, experts]: bias += moe_router_bias_update_rate
/// x sign(mean - count). The same on every rank.
void update_router_biases(ParallelModel& model, const at::Tensor& tokens_per_expert,
                          const ModelConfig& config);

}  // namespace tessera
