#pragma once

// The weights of a model: from a Hugging Face folder, a folder of adapters, a checkpoint. Used by
// runs that start, by evaluation and by generation; what else a checkpoint holds of a run is none
// of its business.

#include <string>

#include "tessera/comm/device_mesh.h"
#include "tessera/config/config.h"
#include "tessera/layout/model_spec.h"
#include "tessera/parallel/parallel_model.h"

namespace tessera {

/// Masters from a Hugging Face folder, or adapters from one in PEFT's form; each rank reads the
/// bytes of its boxes. What is read is cast to the type in which the parameter is stored. Throws
/// CheckpointError that lists every missing, surplus and misshapen name.
void load_hf_weights(ParallelModel& model, const Config& config, const std::string& folder,
                     WeightRows rows = WeightRows::kAll);

/// All but the adapters, from the folder or checkpoint at `path`. Collective over the mesh. Throws
/// CheckpointError.
void load_base(ParallelModel& model, const Config& config, const std::string& path,
               const DeviceMesh& mesh);

/// The model that is at checkpoint.load_path: a Hugging Face folder, or a checkpoint (of a folder
/// of several, the newest that is whole). With lora_config also adapters in PEFT's form or a
/// checkpoint of them, beside the base at checkpoint.base_load_path. Nothing else of a run is read.
/// Collective over the mesh. Throws CheckpointError.
void load_weights(ParallelModel& model, const Config& config, const DeviceMesh& mesh);

/// Fingerprint of what is at checkpoint.base_load_path, the same on every rank: rank 0 reads it
/// all. Empty: no such path. Collective. Throws CheckpointError.
std::string base_fingerprint(const Config& config, const DeviceMesh& mesh);

}  // namespace tessera
