#pragma once

// Where planted faults take hold (see faults.h).

#include <vector>

#include "tessera/dist/device_mesh.h"
#include "tessera/nn/layer_context.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/train/faults.h"

namespace tessera {

void plant_before_training(const Faults& faults, ParallelModel& model, const DeviceMesh& mesh);
void plant_in_batch(const Faults& faults, std::vector<LayerContext>& contexts);
void plant_in_loss(const Faults& faults, Sinks& sinks, int64_t step, int64_t rank);

}  // namespace tessera
