#pragma once

// Where injected faults take hold (see faults.h): in the seams of the built model, in the group of
// the pipeline, in what a step is given. Without a fault each returns at once.

#include <vector>

#include "tessera/comm/device_mesh.h"
#include "tessera/nn/layer_context.h"
#include "tessera/parallel/parallelize.h"
#include "tessera/schedule/schedule_options.h"
#include "tessera/train/parity/faults.h"

namespace tessera {

/// Collective over the mesh. Throws ConfigError when the layout has no place for the fault.
void inject_before_training(const Faults& faults, ParallelModel& model, const DeviceMesh& mesh);

/// The group that the pipeline is to use. Throws ConfigError as above.
ProcessGroup inject_in_pipeline(const Faults& faults, const ProcessGroup& stages,
                                const ScheduleOptions& options);

/// Throws ConfigError as above.
void inject_in_batch(const Faults& faults, std::vector<LayerContext>& contexts,
                     const DeviceMesh& mesh);

void inject_in_loss(const Faults& faults, Sinks& sinks, int64_t step, int64_t rank);

}  // namespace tessera
